"use strict";
// Which stages are shown, going between them, and marking the lines of the source and of the C that belong together.
(() => {
  const sections = [...document.querySelectorAll("main > section")];
  const switches = [...document.querySelectorAll("nav button")];

  function show(k, shown) {
    sections[k].hidden = !shown;
    switches[k].setAttribute("aria-pressed", String(shown));
  }

  function go(section) {
    section.scrollIntoView({ behavior: "smooth", inline: "start", block: "nearest" });
    section.querySelector(".body").focus({ preventScroll: true });
  }

  switches.forEach((button, k) => button.addEventListener("click", () => {
    show(k, sections[k].hidden);
    if (!sections[k].hidden) go(sections[k]);
  }));

  // Source and C: an element with data-to="s12 s14" belongs to the elements of these ids.
  const partners = new Map();
  for (const element of document.querySelectorAll("[data-to]")) {
    for (const id of element.dataset.to.split(" ")) {
      if (!partners.has(id)) partners.set(id, []);
      partners.get(id).push(element);
    }
  }
  let lit = [];

  function clear() {
    for (const element of lit) element.classList.remove("lit");
    lit = [];
  }

  function light(element) {
    clear();
    const own = element.dataset.to ? [element] : partners.get(element.id) || [];
    const ids = element.dataset.to ? element.dataset.to.split(" ") : [element.id];
    lit = [...own, ...ids.map(id => document.getElementById(id)).filter(Boolean)];
    for (const found of lit) found.classList.add("lit");
  }

  function place(target) {
    return target.closest && target.closest("[data-to], .row[id]");
  }

  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, event => {
      const found = place(event.target);
      if (found && (found.dataset.to || partners.has(found.id))) light(found);
    });
  }

  document.addEventListener("click", event => {
    const link = event.target.closest("a[href^='#']");
    const target = link && document.getElementById(link.hash.slice(1));
    if (!target) return;
    event.preventDefault();
    const section = target.closest("section");
    if (section) show(sections.indexOf(section), true);
    const found = target.classList.contains("row") ? target.firstElementChild : target;
    found.scrollIntoView({ block: found === target ? "start" : "center", inline: "nearest" });
    if (section) section.scrollIntoView({ inline: "nearest", block: "nearest" });
    const next = target.querySelector("a") || target;
    next.focus({ preventScroll: true });
    light(target);
  });

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const number = Number(event.key);
    if (number >= 1 && number <= switches.length) switches[number - 1].click();
    if (event.key === "Escape") clear();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const shown = sections.filter(s => !s.hidden);
    const here = shown.indexOf(document.activeElement.closest("section"));
    const next = shown[here < 0 ? (step > 0 ? 0 : shown.length - 1) : here + step];
    if (next) {
      event.preventDefault();
      go(next);
    }
  });
})();
