#!/usr/bin/env python3
"""Figures from build/bench-results.json as plain SVG: docs/scaling.svg and docs/roofline.svg.

    bench/figure.py [RESULTS.json [OUT_DIR]]
"""
import json
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#666666")
WIDTH, HEIGHT, MARGIN = 460, 340, 62


class Panel:
    """One chart with two logarithmic axes."""

    def __init__(self, left, title, x_label, y_label, xs, ys):
        self.left = left
        self.legend = []
        self.x_range = (min(xs) / 1.15, max(xs) * 1.15)
        self.y_range = (10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys))))
        self.parts = [f'<text x="{left + WIDTH / 2}" y="22" text-anchor="middle" font-weight="bold">{title}</text>',
                      f'<text x="{left + WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_label}</text>',
                      f'<text transform="translate({left + 14},{HEIGHT / 2}) rotate(-90)" text-anchor="middle">{y_label}</text>',
                      f'<rect x="{left + MARGIN}" y="36" width="{WIDTH - MARGIN - 20}" height="{HEIGHT - 36 - MARGIN}" '
                      'fill="none" stroke="#999"/>']
        self.grid()

    def at(self, x, y):
        def part(value, low, high):
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))

        return (self.left + MARGIN + part(x, *self.x_range) * (WIDTH - MARGIN - 20),
                HEIGHT - MARGIN - part(y, *self.y_range) * (HEIGHT - 36 - MARGIN))

    def grid(self):
        decade = self.y_range[0]
        while decade <= self.y_range[1] * 1.001:
            _, y = self.at(self.x_range[0], decade)
            self.parts.append(f'<line x1="{self.left + MARGIN}" x2="{self.left + WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                              f'<text x="{self.left + MARGIN - 5}" y="{y + 4:.1f}" text-anchor="end">{decade:g}</text>')
            decade *= 10

    def tick(self, x, text):
        px, _ = self.at(x, self.y_range[0])
        self.parts.append(f'<text x="{px:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{text}</text>')

    def line(self, points, colour, text="", dots=True, dash=""):
        places = [self.at(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        if dots:
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        if text:
            self.legend.append(f'<text x="{self.left + MARGIN + 8}" y="{52 + 14 * len(self.legend)}" fill="{colour}">{text}</text>')
            self.parts.append(self.legend[-1])

    def dot(self, x, y, colour, text):
        px, py = self.at(x, y)
        self.parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"><title>{text}</title></circle>')


def write_svg(path, panels, title):
    width = max(p.left for p in panels) + WIDTH
    body = "\n".join(part for panel in panels for part in panel.parts)
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + 20}" font-family="sans-serif" '
                   f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n'
                   f'<text x="10" y="{HEIGHT + 14}" fill="#666">{title}</text>\n</svg>\n')
    print(path)


def scaling(report, path):
    rows = [r for r in report["results"] if "ms" in r]
    panels = []
    for i, (key, title, label) in enumerate((("ms", "Time", "ms"), ("memory_mib", "GPU memory", "MiB"))):
        panel = Panel(i * WIDTH, title, "edge of the volume, voxels", label, [r["size"] for r in rows], [r[key] for r in rows])
        for size in sorted({r["size"] for r in rows} - {96, 160, 224, 288}):
            panel.tick(size, size)
        for c, channels in enumerate(sorted({r["channels"] for r in rows})):
            line = sorted((r["size"], r[key]) for r in rows if r["channels"] == channels)
            panel.line(line, COLOURS[c % len(COLOURS)], f"{channels} channels")
        panels.append(panel)
    write_svg(path, panels, f"Five dilated 3x3x3 convolutions, a head and argmax, f32, {report['device']}")


def roofline(report, path):
    rows = [r for r in report["results"] if r["flops"] > 0 and r["bytes"] > 0]
    peak_flops, peak_bytes = report["peak_gflops"], report["peak_gbytes"]
    intensity = [r["flops"] / r["bytes"] for r in rows] + [peak_flops / peak_bytes]
    panel = Panel(0, "Roofline", "FLOP per byte of least traffic", "GFLOP/s", intensity, [r["gflops"] for r in rows] + [peak_flops])
    ridge = peak_flops / peak_bytes
    low, high = panel.x_range
    panel.line([(max(low, panel.y_range[0] / peak_bytes), max(low * peak_bytes, panel.y_range[0])), (ridge, peak_flops), (high, peak_flops)],
               "#333", dots=False, dash="5 3")
    for x in (0.25, 1, 4, 16, 64, 256):
        if low < x < high:
            panel.tick(x, f"{x:g}")
    for i, op in enumerate(sorted({r["op"] for r in rows})):
        for r in rows:
            if r["op"] == op:
                panel.dot(r["flops"] / r["bytes"], r["gflops"], COLOURS[i % len(COLOURS)], f"{op} {r['case']}")
        panel.parts.append(f'<text x="{panel.left + WIDTH - 30}" y="{HEIGHT - MARGIN - 80 + 14 * i}" text-anchor="end" fill="{COLOURS[i % len(COLOURS)]}">{op}</text>')
    write_svg(path, [panel], f"Useful arithmetic per op; dashed: measured peaks of {report['device']}")


def main():
    results = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "bench-results.json")
    out = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "docs")
    with open(results) as file:
        report = json.load(file)
    if report.get("scaling"):
        scaling(report["scaling"], os.path.join(out, "scaling.svg"))
    if report.get("ops"):
        roofline(report["ops"], os.path.join(out, "roofline.svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
