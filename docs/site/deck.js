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
  const content = (page) => page.lastChild;
  const height = (page) => content(page).getBoundingClientRect().height;
  const isHeading = (block) => /^H[1-6]$/.test(block.firstElementChild?.tagName || "");

  /* Makes the only block of a page as much smaller as it needs to be. */
  function fit(page) {
    const block = content(page).lastChild;
    for (let size = 0.96; height(page) > ROOM && size >= SMALLEST; size -= 0.04) {
      block.style.zoom = size.toFixed(2);
    }
    if (height(page) > ROOM) {
      const above = block.getBoundingClientRect().top - content(page).getBoundingClientRect().top;
      const size = Number(block.style.zoom) || 1;
      block.style.maxHeight = `${Math.floor((ROOM - above - 24) / size)}px`;
      block.classList.add("scrolls");
    }
  }

  function layOut(flow) {
    const blocks = [...flow.querySelectorAll(":scope > .block")];
    const title = flow.querySelector("h2, h1")?.textContent || "";
    const column = document.createElement("section");
    flow.replaceWith(column);
    let page = null;
    const begin = () => {
      page = slide(column.childElementCount ? title : "");
      column.append(page);
      return page;
    };
    begin();
    for (const block of blocks) {
      const heading = isHeading(block) && !/^H2$/.test(block.firstElementChild.tagName);
      if ((block.classList.contains("breaks") || heading) && content(page).childElementCount
          && !onlyHeadings(page)) begin();
      content(page).append(block);
      if (height(page) <= ROOM) continue;
      // A heading, and a code cell whose first piece is all that stands here, go along.
      const along = [block];
      for (let last = block.previousElementSibling; last; last = last.previousElementSibling) {
        if (!isHeading(last)) break;
        along.unshift(last);
      }
      if (along.length < content(page).childElementCount) {
        begin();
        content(page).append(...along);
      }
      if (height(page) > ROOM) fit(page);
    }
    column.querySelectorAll(".page").forEach((one) => {
      if (!content(one).childElementCount) one.remove();
    });
    const notes = flow.querySelector("aside.notes");
    if (notes) column.firstElementChild.append(notes);
  }
  const onlyHeadings = (page) => [...content(page).children].every(isHeading);

  /* Everything on its slide? Tests read this, and the console says which is not. */
  function judge() {
    const pages = [...document.querySelectorAll("section.page")];
    const full = pages.filter((page) => {
      const style = page.getAttribute("style");
      page.style.cssText = "display:block;visibility:hidden;position:absolute";
      const over = height(page) > ROOM + 1 || content(page).scrollWidth > WIDTH + 1;
      page.setAttribute("style", style || "");
      return over;
    });
    full.forEach((page) => console.warn("a slide overflows:", page.textContent.slice(0, 80)));
    document.body.dataset.slides = pages.length;
    document.body.dataset.overflows = full.length;
    document.body.dataset.scrolls = document.querySelectorAll(".scrolls").length;
  }

  async function start() {
    await mathIsSet();
    // Measured at its real size, before reveal.js scales everything to the window.
    const slides = document.querySelector(".slides");
    slides.style.cssText = `width:${WIDTH}px;position:absolute`;
    slides.querySelectorAll("section.flow").forEach(layOut);
    judge();
    slides.style.cssText = "";
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
