"use strict";

/* Above the grid: how many images, which filters are on, which detector is looked at, and the order; and the way out
   for what is selected, and for what is to be labelled again. */

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
      const download = element("button", {
        type: "button",
        class: "quiet",
        textContent: "CSV",
        title: "These images with labels and verdicts",
        "aria-label": "Download these images with labels and verdicts as CSV",
        onclick: () => save("selected_images.csv", selectedImages(detectorBenchReport.parts.selected)),
      });
      this.again = element("div", { class: "choices", hidden: true, role: "group", "aria-label": "To be labelled again" });
      container.append(
        element("div", { class: "choices" }, toggle, this.count, labelled("Detector", this.detector), labelled("Order", this.sort), download),
        this.chips,
        this.again,
      );
      detectorBenchReport.parts.again = { images: new Set(), changed: () => this.showAgain() };
    }

    /** What was chosen in the detail view: a list to download, and the command that puts it into the queues. */
    showAgain() {
      const { images } = detectorBenchReport.parts.again;
      this.again.hidden = images.size === 0;
      const button = (textContent, onclick) => element("button", { type: "button", class: "quiet", textContent, onclick });
      const command = element("input", {
        type: "text",
        id: "again-command",
        readOnly: true,
        size: 52,
        value: "detector-bench label IMAGE_SET --again label_again.csv",
        onfocus: () => command.select(),
      });
      this.again.replaceChildren(
        element("p", { class: "found" }, `${words.images(images.size)} to label again`),
        button("Download the list", () => save("label_again.csv", asCsv([["image_id"], ...[...images].map((each) => [each])]))),
        labelled("Then", command),
        button("Forget the list", () => {
          images.clear();
          this.showAgain();
        }),
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

  /** Image, T2I model, prompt and label, then each detector's verdict, in the order of the grid. */
  function selectedImages({ dataset, attribute, rows }) {
    const { prompts } = dataset;
    const { detectors, name } = attribute;
    const head = ["image_id", "t2i_model", "prompt_id", "category", "word", `label_${name}`, ...detectors.map((each) => each.name)];
    const lines = Array.from(rows(), (row) => {
      const prompt = dataset.prompt[row];
      const about = [dataset.model.at(row), prompts.prompt_id[prompt], prompts.category[prompt], prompts.word[prompt]];
      const verdicts = detectors.map(({ verdict }) => attribute.verdictNames[verdict[row]] ?? "");
      return [dataset.imageIds[row], ...about, attribute.labels[attribute.truth[row]] ?? "", ...verdicts];
    });
    return asCsv([head, ...lines]);
  }

  /**
   * Rows as CSV. A spreadsheet takes what begins with = + - @ for a formula, so such words get an apostrophe before
   * them, also those that begin with one: to take one away gives every word back. Ids stay as they are.
   */
  function asCsv(rows) {
    const cell = (value, column) => {
      const text = String(value ?? "");
      const safe = column > 0 && /^'*[=+\-@\t\r]/u.test(text) ? `'${text}` : text;
      return /[",\r\n]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
  }

  function save(name, text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  const labelled = (text, control) =>
    element("div", { class: "choice" }, element("label", { htmlFor: control.id }, text), control);

  return { Toolbar };
})();
