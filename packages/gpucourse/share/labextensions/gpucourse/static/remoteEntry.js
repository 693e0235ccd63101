// What JupyterLab loads of a prebuilt extension: a container as webpack's module federation makes
// one, written by hand, because what it does takes a few lines.
// https://jupyterlab.readthedocs.io/en/stable/extension/extension_dev.html#prebuilt-extensions

// JupyterLab breaks printed text and errors at the last letter that fits (word-break: break-all).
const STYLE = `
.jp-RenderedText pre { word-break: normal; overflow-wrap: anywhere; }
`;

// The steps of a picture are radio buttons (gpucourse.views.page.stepper).
const STEPS = ".gpuc-steps > input[type=radio]";

function activate() {
  const sheet = document.createElement("style");
  sheet.textContent = STYLE;
  document.head.append(sheet);
  // A click in an output gives the notebook the focus; here the button keeps it.
  window.addEventListener("click", (event) => {
    const button = event.target.closest?.(".gpuc-steps > .scale > label")?.control;
    if (button) setTimeout(() => button.focus());
  });
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
