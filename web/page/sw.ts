/// <reference lib="webworker" />
// Offline after the first visit: the page's files are kept when it is installed and served from there; a new build has
// a new version and takes over when the last tab of the old one closes. Models are kept by the worker that reads them.

declare const FILES: string[]; // filled in by the build
declare const VERSION: string;
declare const PREFIX: string; // of this page's caches

const scope = self as unknown as ServiceWorkerGlobalScope;
const kName = PREFIX + VERSION;

// Lists that may change between builds: from the network where there is one.
const kLists = ["models/index.json", "demo/index.json"];
const kFresh = /\/(models|demo)\/index\.json$/;

scope.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(kName);
    await cache.addAll(FILES.map((file) => new Request(file, { cache: "reload" })));
    for (const list of kLists) await cache.add(list).catch(() => {}); // a site may have none
  })());
});

scope.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) if (name.startsWith(PREFIX) && name !== kName) await caches.delete(name);
    await scope.clients.claim();
  })());
});

scope.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== scope.location.origin) return;
  if (kFresh.test(url.pathname)) event.respondWith(fresh(event.request));
  else event.respondWith(kept(event.request));
});

async function kept(request: Request): Promise<Response> {
  const cache = await caches.open(kName);
  const found = await cache.match(request, { ignoreSearch: request.mode === "navigate" });
  return found ?? fetch(request);
}

async function fresh(request: Request): Promise<Response> {
  const cache = await caches.open(kName);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(request, answer.clone());
    return answer;
  } catch (error) {
    const found = await cache.match(request);
    if (found) return found;
    throw error;
  }
}
