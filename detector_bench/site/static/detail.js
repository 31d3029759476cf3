"use strict";

/* One image with all that was said about it. */

detectorBenchReport.parts.detail = (() => {
  const { boxes, dom, pictures, words } = detectorBenchReport.parts;
  const { element } = dom;

  const NUMBERS = ["Score", "Value"];

  class Detail {
    /** `go(step)` shows the next or the previous image; `closed()` is called when the dialog was closed. */
    constructor(dialog, { go, closed }) {
      Object.assign(this, { dialog, go, closed });
      this.hiddenStages = new Set();
      dialog.addEventListener("close", () => this.closed());
      dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
      });
      dialog.addEventListener("keydown", (event) => this.onKey(event));
    }

    onKey(event) {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(".scroll, input")) return;
      event.preventDefault();
      this.go(step);
    }

    show(dataset, attribute, row, place) {
      const kept = this.dialog.contains(document.activeElement) ? document.activeElement.dataset.keep : "";
      this.dialog.replaceChildren(
        this.head(dataset, row, place),
        element(
          "div",
          { class: "detail-body" },
          element("div", { class: "detail-picture" }, this.picture(dataset, attribute, row)),
          element("div", { class: "detail-facts" }, this.facts(dataset, row), this.allVerdicts(dataset, attribute, row)),
        ),
      );
      if (!this.dialog.open) this.dialog.showModal();
      (this.dialog.querySelector(`[data-keep="${kept || "close"}"]:not(:disabled)`) ?? this.dialog).focus();
    }

    head(dataset, row, place) {
      const button = (keep, text, name, onclick, disabled) =>
        element("button", { type: "button", data: { keep }, "aria-label": name, textContent: text, onclick, disabled });
      return element(
        "div",
        { class: "detail-head" },
        element("h2", { id: "detail-title" }, dataset.imageIds[row]),
        element("p", { class: "place" }, place.total ? `${words.count(place.position + 1)} of ${words.count(place.total)}` : ""),
        this.againButton(dataset.imageIds[row]),
        button("previous", "‹", "Previous image", () => this.go(-1), place.position <= 0),
        button("next", "›", "Next image", () => this.go(1), place.position < 0 || place.position >= place.total - 1),
        button("close", "×", "Close", () => this.dialog.close(), false),
      );
    }

    /** Puts an image on the list of what is to be labelled again, and takes it off. */
    againButton(imageId) {
      const { again } = detectorBenchReport.parts;
      const button = element("button", {
        type: "button",
        data: { keep: "again" },
        "aria-pressed": String(again.images.has(imageId)),
        textContent: "Label again",
        onclick: () => {
          if (!again.images.delete(imageId)) again.images.add(imageId);
          button.setAttribute("aria-pressed", String(again.images.has(imageId)));
          again.changed();
        },
      });
      return button;
    }

    picture(dataset, attribute, row) {
      const word = dataset.prompts.word[dataset.prompt[row]] ?? "";
      const about = ["Synthetic image", dataset.model.at(row), word].filter(Boolean).join(", ");
      const image = pictures.picture(dataset, row, "large", about);
      const frame = element("div", { class: "frame" }, image);
      keepProportions(frame, image, dataset, row);
      const found = boxes.ofImage(dataset, row);
      const legend = image.tagName === "IMG" ? boxes.legend(frame, image, found, dataset, row, this.hiddenStages) : [];
      const notes = [];
      if (dataset.pictures.state[row] === 1) notes.push("The file is another one now than when it was judged.");
      if (dataset.pictures.mode === "blur") notes.push("Pictures are blurred in this report.");
      if (dataset.pictures.mode === "link" && image.tagName === "IMG") {
        notes.push("This picture lies outside the report, in the image set.");
      }
      return [frame, ...legend, ...notes.map((text) => element("p", { class: "muted" }, text))];
    }

    facts(dataset, row) {
      const prompt = dataset.prompt[row];
      const { prompts } = dataset;
      const pairs = [
        ["T2I model", dataset.model.at(row)],
        ["Prompt", prompts.prompt[prompt] || prompts.word[prompt] || prompts.prompt_id[prompt]],
        ["Word", prompts.prompt[prompt] ? prompts.word[prompt] : ""],
        ["Category", prompts.category[prompt]],
        ["Edited from", dataset.seed?.at(row)],
        ["File", dataset.paths[row]],
      ];
      return element(
        "dl",
        { class: "facts" },
        pairs
          .filter(([, value]) => value)
          .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
      );
    }

    /** The attribute that is looked at comes first. */
    allVerdicts(dataset, attribute, row) {
      const others = [...dataset.attributes.values()].filter((each) => each !== attribute);
      return [attribute, ...others].map((each) => this.verdicts(dataset, each, row));
    }

    verdicts(dataset, attribute, row) {
      const human = attribute.labels[attribute.truth[row]];
      const reason = attribute.reason.at(row);
      const heading = [human ? words.inWords(human) : "No label", reason && words.inWords(reason).toLowerCase()];
      return element(
        "section",
        {},
        element("h3", {}, `Perceived ${attribute.name.replaceAll("_", " ")}`),
        element(
          "p",
          { class: "human" },
          element("span", { class: "who" }, "Human label"),
          element("strong", {}, heading.filter(Boolean).join(", ")),
        ),
        this.annotators(dataset, attribute, row),
        attribute.detectors.length ? this.table(attribute, row) : element("p", {}, "No detector judges this."),
      );
    }

    annotators(dataset, attribute, row) {
      const { image, annotator, attribute: ofLabel, label, reason, value } = dataset.labels;
      const found = [];
      for (let index = firstAtLeast(image, row); index < image.length && image[index] === row; index += 1) {
        if (ofLabel.at(index) !== attribute.name) continue;
        const more = [value.at(index), words.inWords(reason.at(index)).toLowerCase()].filter(Boolean).join(", ");
        const said = `${annotator.at(index)}: ${words.inWords(label.at(index))}`;
        found.push(element("li", {}, more ? `${said} (${more})` : said));
      }
      return found.length ? element("ul", { class: "annotators", "aria-label": "Each annotator" }, found) : "";
    }

    table(attribute, row) {
      const { detectors } = attribute;
      const has = {
        score: detectors.some((each) => each.score),
        value: detectors.some((each) => each.value),
        reason: detectors.some((each) => each.reason.at(row)),
        raw: detectors.some((each) => each.raw?.at(row)),
      };
      const further = { score: "Score", value: "Value", reason: "Reason", raw: "Answer" };
      const names = ["Detector", "Verdict", ...Object.keys(further).filter((each) => has[each]).map((each) => further[each])];
      const heads = names.map((name) =>
        element("th", { scope: "col", class: NUMBERS.includes(name) ? "number" : null }, name),
      );
      return element(
        "div",
        { class: "scroll", tabIndex: 0, role: "region", "aria-label": `Verdicts on perceived ${attribute.name}` },
        element(
          "table",
          {},
          element("thead", {}, element("tr", {}, heads)),
          element("tbody", {}, detectors.map((each) => this.row(attribute, each, row, has))),
        ),
      );
    }

    row(attribute, detector, row, has) {
      const outcome = words.OUTCOMES[detector.outcome[row]];
      const verdict = words.inWords(attribute.verdictNames[detector.verdict[row]] ?? "not run");
      const named = detector.named && attribute.classes[detector.named[row]];
      const cell = (content, name) => element("td", { class: name }, content);
      return element(
        "tr",
        { class: `tone-${outcome.tone}` },
        element("th", { scope: "row" }, detector.name),
        cell(
          [
            element("span", { class: `mark ${outcome.tone}`, title: outcome.name }, outcome.mark),
            ` ${verdict}`,
            named ? element("span", { class: "muted" }, ` (named ${words.inWords(named).toLowerCase()})`) : "",
            element("span", { class: "hidden" }, `, ${outcome.name}`),
          ],
          "verdict",
        ),
        has.score && cell(detector.score ? words.decimals(detector.score[row], 3) : "", "number"),
        has.value && cell(detector.value ? words.decimals(detector.value[row], 1) : "", "number"),
        has.reason && cell(detector.reason.at(row), "reason"),
        has.raw && cell(element("span", { class: "raw" }, detector.raw?.at(row) ?? ""), "answer"),
      );
    }
  }

  /** A tall picture gets a narrower frame, so that it can be seen whole. */
  function keepProportions(frame, image, dataset, row) {
    const { width, height } = dataset.pictures;
    const set = (ratio) => frame.style.setProperty("--ratio", String(ratio));
    if (height[row]) set(width[row] / height[row]);
    else image.addEventListener("load", () => set(image.naturalWidth / image.naturalHeight), { once: true });
  }

  /** The first place in a sorted column that holds the value or a larger one. */
  function firstAtLeast(sorted, value) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return { Detail };
})();
