import type { LabelEntry, Report } from "../src/types.js";
import { byId, element, swatch } from "./dom.js";

// The table of volumes and the list of labels; a click shows one label alone, another click all of them.

const share = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const kMany = 10; // labels, from which on they are looked for by name
const kFew = 6; // labels that need no sums of tissues below them
const decimal = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

export class LabelTable {
  /** A label alone, with its centre in mm where it has one; or all. */
  onAlone: (value: number | null, centroid: [number, number, number] | null) => void = () => {};
  private centroids = new Map<number, [number, number, number] | null>();
  private alone: number | null = null;
  private rows = new Map<number, HTMLTableRowElement>();
  private readonly select = byId<HTMLSelectElement>("alone");

  constructor() {
    const find = byId<HTMLInputElement>("find");
    find.addEventListener("input", () => {
      for (const row of this.rows.values())
        row.hidden = !row.textContent!.toLowerCase().includes(find.value.trim().toLowerCase());
    });
    this.select.addEventListener("change", () =>
      this.choose(this.select.value === "" ? null : Number(this.select.value)));
  }

  clear(): void {
    this.rows.clear();
    byId<HTMLInputElement>("find").value = "";
    this.alone = null;
    byId("labels").querySelector("tbody")?.replaceChildren();
    this.select.replaceChildren(new Option("all labels", ""));
    this.select.disabled = true;
  }

  show(report: Report, labels: LabelEntry[]): void {
    this.clear();
    this.centroids = new Map(report.labels.map(({ value, centroid, voxels }) => [value, voxels > 0 ? centroid : null]));
    const colours = new Map(labels.map((entry) => [entry.value, entry.colour]));
    const body = byId("labels").querySelector("tbody") as HTMLTableSectionElement;
    for (const label of report.labels) {
      const row = body.insertRow();
      row.classList.toggle("absent", label.voxels === 0);
      const button = element("button");
      button.type = "button";
      button.append(swatch(colours.get(label.value) ?? "#888888"), label.name);
      button.setAttribute("aria-pressed", "false");
      button.title = "Show this label alone";
      const head = element("th");
      head.scope = "row";
      head.append(button);
      row.append(head);
      for (const text of this.cells(label.mm3, report.totalMm3)) row.insertCell().textContent = text;
      row.addEventListener("click", () => this.choose(this.alone === label.value ? null : label.value));
      this.rows.set(label.value, row);
      if (label.voxels > 0) this.select.append(new Option(label.name, String(label.value)));
    }
    this.select.disabled = false;
    byId("find-field").hidden = report.labels.length < kMany;
    this.sums(report);
  }

  // ml and share of all labels; the reports have the rest.
  private cells(mm3: number, all: number): string[] {
    return [decimal.format(mm3 / 1000), all > 0 ? share.format((100 * mm3) / all) : ""];
  }

  private sums(report: Report): void {
    const foot = byId("labels").querySelector("tfoot") as HTMLTableSectionElement;
    foot.replaceChildren();
    const line = (name: string, mm3: number | null) => {
      if (mm3 === null) return;
      const row = foot.insertRow();
      row.insertCell().textContent = name;
      for (const text of this.cells(mm3, report.totalMm3)) row.insertCell().textContent = text;
    };
    if (report.labels.length > kFew) {
      line("Grey matter", report.greyMm3);
      line("White matter", report.whiteMm3);
      line("CSF", report.csfMm3);
    }
    line("All labels", report.totalMm3);
  }

  private choose(value: number | null): void {
    this.alone = value;
    for (const [label, row] of this.rows) {
      row.classList.toggle("chosen", label === value);
      row.querySelector("button")?.setAttribute("aria-pressed", String(label === value));
    }
    this.select.value = value === null ? "" : String(value);
    this.onAlone(value, value === null ? null : this.centroids.get(value) ?? null);
  }
}
