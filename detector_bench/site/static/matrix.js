"use strict";

/* The confusion table of the detector that is looked at; every cell is a filter. */

detectorBenchReport.parts.matrix = (() => {
  const { dom, filtering, state: states, words } = detectorBenchReport.parts;
  const { element } = dom;

  class Matrix {
    constructor(panel, detector) {
      this.panel = panel;
      this.truth = panel.all.get("truth");
      this.verdict = panel.all.get(`verdict.${detector.name}`);
      this.inAll = filtering.confusion(this.truth, this.verdict, [], new Uint32Array(panel.dataset.count));
      this.cells = new Map();
      this.node = this.table();
    }

    table() {
      const width = this.verdict.values.length;
      const has = (row, column) => this.inAll[row * width + column] > 0;
      const rows = this.truth.values.map((_, row) => row).filter((row) => this.verdict.values.some((_v, c) => has(row, c)));
      const columns = this.verdict.values
        .map((_, column) => column)
        .filter((column) => this.truth.values.some((_t, row) => has(row, column)));
      const head = element(
        "tr",
        {},
        element("th", { scope: "col" }, "Human"),
        columns.map((column) => element("th", { scope: "col" }, this.verdict.values[column].name)),
      );
      const body = rows.map((row) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, this.truth.values[row].name),
          columns.map((column) => element("td", {}, this.cell(row, column))),
        ),
      );
      const table = element(
        "table",
        { class: "matrix" },
        element("caption", {}, "By human label and verdict"),
        element("thead", {}, head),
        element("tbody", {}, body),
      );
      return element("div", { class: "matrix-scroll" }, table);
    }

    cell(row, column) {
      const [truth, verdict] = [this.truth.values[row], this.verdict.values[column]];
      const button = element("button", { type: "button", onclick: () => this.toggle(truth.value, verdict.value) });
      this.cells.set(row * this.verdict.values.length + column, { button, truth, verdict });
      return button;
    }

    toggle(truth, verdict) {
      const { state } = this.panel;
      const isChosen = this.isChosen(state, truth, verdict);
      const next = states.withFilter(state, "truth", isChosen ? [] : [truth]);
      this.panel.choose(states.withFilter(next, this.verdict.name, isChosen ? [] : [verdict]));
    }

    isChosen(state, truth, verdict) {
      const [ofTruth, ofVerdict] = [state.filters.get("truth"), state.filters.get(this.verdict.name)];
      return ofTruth?.size === 1 && ofVerdict?.size === 1 && ofTruth.has(truth) && ofVerdict.has(verdict);
    }

    update(state, chosen, failing) {
      const numbers = filtering.confusion(this.truth, this.verdict, chosen, failing);
      for (const [place, { button, truth, verdict }] of this.cells) {
        button.textContent = words.count(numbers[place]);
        button.setAttribute("aria-pressed", String(this.isChosen(state, truth.value, verdict.value)));
        button.setAttribute("aria-label", `Human ${truth.name}, detector ${verdict.name}: ${words.images(numbers[place])}`);
        button.classList.toggle("empty", numbers[place] === 0);
      }
    }
  }

  return { Matrix };
})();
