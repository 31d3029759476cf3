"use strict";

/* Folded parts open for whoever prints the page, or follows an address into them. Without scripts they open by hand. */

(() => {
  const folded = new Set();

  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) {
      folded.add(part);
      part.open = true;
    }
    for (const picture of document.querySelectorAll("img[loading]")) picture.loading = "eager";
  });

  addEventListener("afterprint", () => {
    for (const part of folded) part.open = false;
    folded.clear();
  });

  addEventListener("hashchange", reveal);
  reveal();

  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    const own = target?.querySelector(":scope > details.part");
    if (own) own.open = true;
    for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target?.scrollIntoView();
  }
})();
