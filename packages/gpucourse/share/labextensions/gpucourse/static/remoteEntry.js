// What JupyterLab loads of a prebuilt extension: a container as webpack's module federation makes
// one, written by hand, because what it does is short.
// https://jupyterlab.readthedocs.io/en/stable/extension/extension_dev.html#prebuilt-extensions

// JupyterLab breaks printed text and errors at the last letter that fits (word-break: break-all).
// A locked cell takes the cursor and swallows what is typed: it says so where it is typed.
// The course's longest name is some 20 pixels wider than JupyterLab's list of files. A narrow window
// has none to spare: there the letters are smaller.
const STYLE = `
body { --jp-sidebar-min-width: 290px; }
@media (max-width: 999px) {
  body { --jp-sidebar-min-width: 250px; }
  .jp-DirListing-item { padding: 4px; font-size: 12px; }
}
.jp-RenderedText pre { word-break: normal; overflow-wrap: anywhere; }
.jp-RenderedMarkdown > p:has(> a[data-jupyter-id]:only-child:empty) { margin: 0; }
#validation-message:has(.gpuc-grades) > div > p { display: none; }
.jp-RenderedText pre:has(> .gpuc-grades) { overflow-wrap: normal; white-space: pre; line-height: 1.2; }
.jp-Dialog-content:has(.gpuc-grades) { max-width: 95vw; }
.jp-Notebook .cm-editor.jp-mod-readOnly.cm-focused::after {
  content: "locked: try things in a cell of your own (Esc, then B)";
  padding: 0 0.4em; color: var(--jp-ui-font-color1); background: var(--jp-layout-color2);
}
`;

// JupyterLab's colours of tracebacks have a contrast of 1.1 to 4 on the red behind them, for a
// light and a dark page alike; these have 4.5 at least. IPython's own for source have 3.7 there: source has the text's colour.
const COLOURS = {
  true: { red: "#a8191f", green: "#006322", yellow: "#6b4a00", blue: "#004fa3",
          magenta: "#8c2483", cyan: "#005e66" },
  false: { red: "#ff9d97", green: "#5fd38d", yellow: "#e8c547", blue: "#8cc4ff",
           magenta: "#f0a6e6", cyan: "#7fd9db" },
};

function readable() {
  const text = `.jp-RenderedText[data-mime-type^="application/vnd.jupyter"] pre`;
  return `${text} span[style*="color"] { color: inherit !important; }\n`
    + Object.entries(COLOURS).flatMap(([light, colours]) =>
      Object.entries(colours).map(([name, colour]) => `[data-jp-theme-light="${light}"] ${text}`
        + ` :is(.ansi-${name}-fg, .ansi-${name}-intense-fg) { color: ${colour}; }`)).join("\n");
}

// A kernel tells which Python it is as soon as a notebook is opened, and JupyterLab notes that in
// the notebook: this alone is nothing to save (gpucourse.notebook.server keeps it out of the file).
const watched = new WeakSet();

function unsavedByReading(model) {
  if (!model?.metadataChanged || watched.has(model)) return;
  watched.add(model);
  model.metadataChanged.connect((_, change) => {
    if (!model.dirty && ["language_info", "kernelspec"].includes(change.key)
        && model.getMetadata("gpucourse"))
      queueMicrotask(() => { model.dirty = false; });
  });
}

// JupyterLab looks for the section of a link when it opens the notebook, before there are cells, and
// what is drawn above moves the section later: this one looks until the section stays at the top, or
// until the reader scrolls. Lessons have an anchor above each section (gpucourse.publish.links).
function goToSection(app, path, fragment) {
  const name = decodeURIComponent(fragment.replace(/^#/, ""));
  const end = Date.now() + 60_000;
  let rested = 0;
  const stop = () => clearInterval(timer);
  const timer = setInterval(() => {
    const widget = app.shell.currentWidget;
    const anchor = widget?.context?.path === path && widget.node.querySelector(
      `[data-jupyter-id="${CSS.escape(name)}"]`);
    const scroller = anchor && anchor.closest(".jp-WindowedPanel-outer, .jp-Notebook");
    if (scroller) {
      const before = anchor.getBoundingClientRect().top;
      anchor.scrollIntoView({ block: "start" });
      rested = Math.abs(anchor.getBoundingClientRect().top - before) < 2 ? rested + 1 : 0;
    }
    if (rested > 10 || Date.now() > end) stop();
  }, 200);
  for (const moved of ["wheel", "keydown", "pointerdown"])
    window.addEventListener(moved, stop, { capture: true, once: true });
}

// Beside the list of files a window of 820 pixels leaves 430 to a notebook, which cuts its code: the
// list folds as a notebook is opened there (its icon at the left brings it back), as JupyterLab has
// restored the layout of the last time, and as the window becomes narrow; it returns in a wide one.
const NARROW = "(max-width: 999px)";
const opened = new WeakSet();

function isNotebook(widget) {
  return Boolean(widget?.context?.path.endsWith(".ipynb"));
}

let folded = false;

function makeRoom(shell) {
  if (!isNotebook(shell.currentWidget) || !window.matchMedia(NARROW).matches) return;
  folded ||= !shell.leftCollapsed;
  shell.collapseLeft?.();
}

function followWidth(shell, narrow) {
  if (narrow) makeRoom(shell);
  else if (folded && shell.leftCollapsed) shell.expandLeft?.();
  if (!narrow) folded = false;
}

function makeRoomOnce(shell, widget) {
  if (!isNotebook(widget) || opened.has(widget)) return;
  opened.add(widget);
  makeRoom(shell);
}

// The steps of a picture are radio buttons (gpucourse.views.page.stepper).
const STEPS = ".gpuc-steps > input[type=radio]";

function activate(app) {
  const sheet = document.createElement("style");
  sheet.textContent = STYLE + readable();
  document.head.append(sheet);
  app.shell.currentChanged?.connect((shell, { newValue }) => {
    unsavedByReading(newValue?.context?.model);
    makeRoomOnce(shell, newValue);
  });
  app.restored?.then(() => makeRoom(app.shell));
  window.matchMedia(NARROW).addEventListener("change", ({ matches }) => {
    followWidth(app.shell, matches);
  });
  // A click in an output gives the notebook the focus; here the button keeps it.
  window.addEventListener("click", (event) => {
    const button = event.target.closest?.(".gpuc-steps > .scale > label")?.control;
    if (button) setTimeout(() => button.focus());
  });
  window.addEventListener("click", (event) => {
    // JupyterLab has a link to a file lead to the server's copy of it, and opens the file itself.
    const { pathname = "", hash } = event.target.closest?.("a[href*='/files/']") ?? {};
    const path = decodeURIComponent(pathname.split("/files/")[1] ?? "");
    if (hash && path.endsWith(".ipynb")) goToSection(app, path, hash);
  }, true);
  // JupyterLab takes keys from the document before they reach the button: arrows select cells.
  window.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow") && event.target.matches?.(STEPS)) event.stopPropagation();
  }, true);
}

(globalThis._JUPYTERLAB ??= {}).gpucourse = {
  init: () => undefined,
  get: async () => () => ({
    __esModule: true,
    default: { id: "gpucourse:pages", autoStart: true, activate },
  }),
};
