"use strict";

/* The filters: a list of choices for each facet, with the number of images that each would show. */

detectorBenchReport.parts.panel = (() => {
  const { dom, filtering, state: states, words } = detectorBenchReport.parts;
  const { element } = dom;
  const MANY = 12;
  const OF_DETECTOR = ["outcome", "reason"];
  const COMMON = ["truth", "reason", "model", "category", "prompt", "detectors", "annotators", "picture"];

  class Panel {
    /** `choose(state)` is called with the state that a click leads to. */
    constructor(container, dataset, choose) {
      Object.assign(this, { container, dataset, choose });
      this.facets = new Map();
      this.search = element("input", {
        type: "search",
        id: "search",
        placeholder: "Id, prompt, reason, answer",
        autocomplete: "off",
        spellcheck: false,
        oninput: () => this.choose(states.changed(this.state, { search: this.search.value, image: "" }), { soft: true }),
      });
    }

    /** Build the panel anew for an attribute and a detector. */
    build(attribute, all, state) {
      Object.assign(this, { attribute, all, state });
      this.built = `${attribute.name} ${state.detector}`;
      this.facets.clear();
      const focus = this.container.contains(document.activeElement) ? document.activeElement.id : "";
      this.search.value = state.search;
      this.container.replaceChildren(
        this.head(),
        ...this.attributeChoice(),
        element("div", { class: "group" }, element("label", { htmlFor: "search" }, "Search"), this.search),
        ...this.ofDetector(),
        ...this.comparison(),
        ...COMMON.map((name) => this.facet(all.get(name))),
      );
      if (focus) document.getElementById(focus)?.focus();
    }

    head() {
      this.clear = element("button", {
        type: "button",
        class: "quiet",
        textContent: "Clear all",
        onclick: () => this.choose(states.changed(this.state, { filters: new Map(), search: "", image: "" })),
      });
      this.close = element("button", {
        type: "button",
        class: "quiet close-filters",
        textContent: "Show images",
        onclick: () => document.body.classList.remove("filters-open"),
      });
      return element("div", { class: "filters-head" }, element("h2", {}, "Filters"), this.clear, this.close);
    }

    attributeChoice() {
      const names = [...this.dataset.attributes.keys()];
      if (names.length < 2) return [];
      const select = this.select("attribute", names.map((name) => [name, words.inWords(name)]), this.attribute.name);
      // Filters by label and verdict mean nothing for another attribute.
      select.addEventListener("change", () => {
        const kept = [...this.state.filters].filter(([name]) => ["model", "category", "prompt"].includes(name));
        const state = { attribute: select.value, detector: this.state.detector, image: "", filters: new Map(kept) };
        this.choose(states.changed(this.state, state));
      });
      return [element("div", { class: "group" }, element("label", { htmlFor: "attribute" }, "Perceived"), select)];
    }

    ofDetector() {
      const detector = this.attribute.detectorOf.get(this.state.detector);
      if (!detector) return [];
      this.matrix = new detectorBenchReport.parts.matrix.Matrix(this, detector);
      return [
        element(
          "section",
          { class: "of-detector", "aria-label": detector.name },
          element("h3", {}, detector.name),
          this.matrix.node,
          ...OF_DETECTOR.map((name) => this.facet(this.all.get(`${name}.${detector.name}`))),
        ),
      ];
    }

    /** Two choices of detectors: one that is right, and one that is wrong on the same image. */
    comparison() {
      const { detectors } = this.attribute;
      if (detectors.length < 2) return [];
      const options = [["", "any"], ...detectors.map((each) => [each.name, each.name])];
      this.pair = ["right", "wrong"].map((name) => {
        const select = this.select(name, options, [...(this.state.filters.get(name) ?? [])][0] ?? "");
        select.addEventListener("change", () => {
          this.choose(states.withFilter(this.state, name, select.value ? [select.value] : []));
        });
        return select;
      });
      const labels = ["Right", "Wrong"].map((text, index) =>
        element("div", {}, element("label", { htmlFor: this.pair[index].id }, text), this.pair[index]),
      );
      return [element("fieldset", { class: "group pair" }, element("legend", {}, "One right, one wrong"), labels)];
    }

    select(id, options, value) {
      const choices = options.map(([each, name]) =>
        element("option", { value: each, textContent: name, selected: each === value }),
      );
      return element("select", { id }, choices);
    }

    facet(facet) {
      const list = element("ul", { class: facet.values.length > MANY ? "values long" : "values" });
      const rows = facet.values.map(({ value, name, mark, tone }, position) => {
        const box = element("input", {
          type: "checkbox",
          id: `${facet.name}-${position}`,
          onchange: () => this.choose(states.toggled(this.state, facet.name, value)),
        });
        const count = element("span", { class: "count" });
        const sign = mark ? element("span", { class: `mark ${tone}`, "aria-hidden": "true" }, mark) : "";
        const text = element("span", { class: "value" }, sign, name);
        const item = element("li", {}, element("label", {}, box, text, count));
        list.append(item);
        return { value, name, box, count, item };
      });
      const node = element(
        "details",
        { class: "facet", open: facet.values.length <= MANY },
        element("summary", {}, facet.heading),
        facet.values.length > MANY ? this.narrowing(facet, rows) : "",
        list,
      );
      this.facets.set(facet.name, { facet, rows, node });
      return node;
    }

    /** A field that hides the values of a long list that do not contain its text. */
    narrowing(facet, rows) {
      return element("input", {
        type: "search",
        class: "narrowing",
        placeholder: `Find in ${facet.values.length} values`,
        "aria-label": `Find a value of ${facet.heading}`,
        oninput: (event) => {
          const text = event.target.value.toLowerCase();
          for (const { name, item } of rows) item.classList.toggle("narrowed", !name.toLowerCase().includes(text));
        },
      });
    }

    /** Write the numbers, and tick what is chosen. */
    update(state, chosen, failing) {
      this.state = state;
      if (document.activeElement !== this.search) this.search.value = state.search;
      this.clear.disabled = !state.filters.size && !state.search;
      this.matrix?.update(state, chosen, failing);
      const { dataset, attribute } = this;
      const rows = () => filtering.sorted(filtering.passing(failing), state, attribute);
      detectorBenchReport.parts.selected = { dataset, attribute, rows };
      this.pair?.forEach((select, index) => {
        select.value = [...(state.filters.get(["right", "wrong"][index]) ?? [])][0] ?? "";
      });
      for (const each of this.facets.values()) this.updateFacet(each, state, chosen, failing);
    }

    updateFacet({ facet, rows, node }, state, chosen, failing) {
      const values = state.filters.get(facet.name);
      const numbers = filtering.counts(facet, chosen, failing);
      const inAll = (facet.inAll ??= filtering.counts(facet, [], new Uint32Array(this.dataset.count)));
      let present = inAll.reduce((sum, number) => sum + number, 0) < this.dataset.count ? 1 : 0;
      rows.forEach(({ value, box, count, item }, position) => {
        const isChosen = values?.has(value) ?? false;
        const exists = inAll[position] > 0;
        present += exists ? 1 : 0;
        box.checked = isChosen;
        const text = words.count(numbers[position]);
        if (count.textContent !== text) count.textContent = text;
        item.classList.toggle("empty", numbers[position] === 0);
        item.hidden = !exists && !isChosen;
      });
      node.hidden = present < 2 && !values;
    }
  }

  return { Panel };
})();
