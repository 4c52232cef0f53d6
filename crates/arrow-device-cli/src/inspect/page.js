// What is pointed at, and everything else of the same column, is lit.
"use strict";
const all = [...document.querySelectorAll("[data-path], [data-paths]")];
const paths = new Map(all.map((item) => [item, (item.dataset.paths ?? item.dataset.path).split("\n")]));
const belong = (one, other) => one === other || one.startsWith(other + ".") || other.startsWith(one + ".");
const light = (pointed) => {
  const wanted = pointed ? paths.get(pointed) : [];
  for (const item of all) {
    const isLit = paths.get(item).some((path) => wanted.some((other) => belong(path, other)));
    item.classList.toggle("lit", isLit);
  }
};
document.addEventListener("mouseover", (event) => light(event.target.closest("[data-path], [data-paths]")));
