"use strict";

/* Above the grid: how many images, which filters are on, which detector is looked at, and the order. */

detectorBenchReport.parts.toolbar = (() => {
  const { dom, state: states, words } = detectorBenchReport.parts;
  const { element } = dom;
  const SORTS = [
    ["order", "Order of the image set"],
    ["wrong", "Most detectors wrong first"],
    ["score_high", "Highest score first"],
    ["score_low", "Lowest score first"],
  ];

  class Toolbar {
    constructor(container, choose) {
      Object.assign(this, { container, choose });
      this.count = element("p", { class: "found" });
      this.chips = element("ul", { class: "chips", "aria-label": "Chosen filters" });
      this.detector = element("select", {
        id: "detector",
        onchange: () => choose(states.changed(this.state, { detector: this.detector.value, image: "" })),
      });
      this.sort = element("select", {
        id: "sort",
        onchange: () => choose(states.changed(this.state, { sort: this.sort.value, image: "" })),
      });
      this.sort.append(...SORTS.map(([value, textContent]) => element("option", { value, textContent })));
      const toggle = element("button", {
        type: "button",
        class: "open-filters",
        textContent: "Filters",
        onclick: () => {
          document.body.classList.add("filters-open");
          document.querySelector("#filters .close-filters").focus();
        },
      });
      container.append(
        element("div", { class: "choices" }, toggle, this.count, labelled("Detector", this.detector), labelled("Order", this.sort)),
        this.chips,
      );
    }

    build(attribute) {
      this.attribute = attribute;
      this.detector.replaceChildren(
        ...attribute.detectors.map((each) => element("option", { value: each.name, textContent: each.name })),
      );
    }

    update(state, all, found, total) {
      this.state = state;
      this.detector.value = state.detector;
      this.sort.value = state.sort;
      const text = found === total ? words.images(total) : `${words.count(found)} of ${words.images(total)}`;
      this.count.textContent = text;
      this.chips.replaceChildren(...this.chosen(state, all));
      return text;
    }

    chosen(state, all) {
      const chips = [];
      for (const [name, values] of state.filters) {
        for (const value of values) {
          const text = this.describe(name, value, all);
          chips.push(this.chip(text, () => this.choose(states.toggled(this.state, name, value))));
        }
      }
      if (state.search) {
        chips.push(this.chip(`Text: ${state.search}`, () => this.choose(states.changed(this.state, { search: "", image: "" }))));
      }
      return chips;
    }

    describe(name, value, all) {
      if (name === "right" || name === "wrong") return `${words.inWords(name)}: ${value}`;
      const facet = all.get(name);
      const shown = facet?.values.find((each) => each.value === value)?.name ?? `${value} (unknown)`;
      const detector = name.includes(".") ? name.slice(name.indexOf(".") + 1) : "";
      if (!facet) return `${name}: ${shown}`;
      return detector ? `${detector}: ${shown}` : `${facet.heading}: ${shown}`;
    }

    chip(text, onclick) {
      const button = element(
        "button",
        { type: "button", "aria-label": `Remove the filter ${text}`, onclick },
        element("span", {}, text),
        element("span", { "aria-hidden": "true" }, "×"),
      );
      return element("li", {}, button);
    }
  }

  const labelled = (text, control) =>
    element("div", { class: "choice" }, element("label", { htmlFor: control.id }, text), control);

  return { Toolbar };
})();
