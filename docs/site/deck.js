/* Lays the blocks of a lecture out on slides, then starts reveal.js.
 *
 * Each section.flow is one column of slides. Blocks are put on a slide while they fit; where the
 * next does not, a new slide begins, at a heading or a good place for it if there is one. A block
 * higher than a whole slide is made smaller, and scrolls if that would make it too small to read.
 */
"use strict";

(() => {
  const WIDTH = 1280, HEIGHT = 720, RUNNING = 26;
  const ROOM = HEIGHT - RUNNING;
  const SMALLEST = 0.62; // of the size of everything else

  const root = document.documentElement;
  const wanted = new URLSearchParams(location.search).get("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (name) => { root.classList.remove("light", "dark"); root.classList.add(name); };
  paint(wanted || (dark.matches ? "dark" : "light"));

  function mathIsSet() {
    if (!document.body.dataset.math) return Promise.resolve();
    window.MathJax = { startup: { typeset: false }, options: { enableMenu: false },
                       svg: { fontCache: "local" } };
    return new Promise((done) => {
      const script = document.createElement("script");
      script.src = "mathjax.js";
      script.onload = () => MathJax.startup.promise.then(() => MathJax.typesetPromise()).then(done);
      script.onerror = done;
      document.head.append(script);
    });
  }

  function slide(title) {
    const section = document.createElement("section");
    section.className = "page";
    section.innerHTML = '<div class="running"></div><div class="content"></div>';
    section.firstChild.textContent = title;
    return section;
  }
  const content = (page) => page.querySelector(".content");
  const height = (page) => content(page).getBoundingClientRect().height;
  const leadsOn = (block) => isHeading(block)
    || (block.classList.contains("prose") && block.textContent.trim().endsWith(":"));
  const isHeading = (block) => /^H[1-6]$/.test(block.firstElementChild?.tagName || "");

  /* Makes the only block of a page as much smaller as it needs to be. */
  function fit(page) {
    const block = content(page).lastChild;
    for (let size = 0.96; height(page) > ROOM && size >= SMALLEST; size -= 0.04) {
      block.style.zoom = size.toFixed(2);
    }
    if (height(page) > ROOM) {
      block.classList.add("scrolls");
      for (let part = ROOM; height(page) > ROOM && part > 100; part -= 20) {
        block.style.maxHeight = `${part}px`;
      }
    }
  }

  /* Code as large as its slide has room for. */
  function grow(page) {
    if ([...content(page).children].some((one) => one.style.zoom)) return;
    for (let size = 22; size > 17; size -= 1) {
      page.style.setProperty("--code-size", `${size}px`);
      const lines = [...page.querySelectorAll(".highlight pre, .output > pre")];
      if (height(page) <= ROOM && lines.every((one) => one.scrollWidth <= one.clientWidth)) return;
    }
    page.style.removeProperty("--code-size");
  }

  /* The block that a code cell begins with, for one of its pieces or outputs. */
  function cellOf(block) {
    let first = block;
    while (/\b(code|output)\b/.test(first.className) && !first.classList.contains("starts")
           && first.previousElementSibling) first = first.previousElementSibling;
    return first;
  }
  /* A block and all after it on its slide, with what leads to it: headings, "as follows:". */
  function from(block) {
    const found = [block];
    for (let next = block.nextElementSibling; next; next = next.nextElementSibling) found.push(next);
    for (let last = block.previousElementSibling; last && leadsOn(last);
         last = last.previousElementSibling) found.unshift(last);
    return found;
  }
  const onlyHeadings = (page) => [...content(page).children].every(isHeading);

  function layOut(flow) {
    const blocks = [...flow.querySelectorAll(":scope > .block")];
    const title = flow.querySelector("h2, h1")?.textContent || "";
    const column = document.createElement("section");
    flow.replaceWith(column);
    let page = null;
    const begin = () => {
      page = slide(column.childElementCount ? title : "");
      column.append(page);
    };
    begin();
    for (const block of blocks) {
      const breaks = block.classList.contains("breaks") || /^H[34]$/.test(
        block.firstElementChild?.tagName || "");
      if (breaks && !onlyHeadings(page)) begin();
      content(page).append(block);
      // First the whole cell goes on a new slide; if it is higher than one, its parts do.
      for (const first of new Set([cellOf(block), block])) {
        if (height(page) <= ROOM) break;
        const along = from(first);
        if (along.length === content(page).childElementCount) continue;
        begin();
        content(page).append(...along);
      }
      if (height(page) > ROOM) fit(page);
    }
    column.querySelectorAll(".page").forEach(grow);
    const notes = flow.querySelector("aside.notes");
    if (notes) column.firstElementChild.append(notes);
  }

  /* Everything on its slide? Tests read this, and the console says which is not. */
  function judge() {
    const pages = [...document.querySelectorAll("section.page")];
    const full = pages.filter((page) => !height(page) || height(page) > ROOM + 1
      || content(page).scrollWidth > WIDTH + 1);
    full.forEach((page) => console.warn("a slide overflows:", page.textContent.slice(0, 80)));
    document.body.dataset.slides = pages.length;
    document.body.dataset.overflows = full.length;
    document.body.dataset.scrolls = document.querySelectorAll(".scrolls").length;
  }

  async function start() {
    await mathIsSet();
    // Measured at its real size, before reveal.js scales everything to the window.
    const slides = document.querySelector(".slides");
    slides.classList.add("measured");
    slides.querySelectorAll("section.flow").forEach(layOut);
    judge();
    slides.classList.remove("measured");
    await Reveal.initialize({
      width: WIDTH, height: HEIGHT, margin: 0.045, center: false, hash: true,
      slideNumber: "c/t", navigationMode: "linear", transition: "none",
      plugins: [RevealNotes], keyboard: { 68: () => paint(root.classList.contains("dark") ? "light" : "dark") },
    });
    document.body.dataset.ready = "yes";
  }
  if (document.readyState === "complete") start();
  else addEventListener("load", start);
})();
