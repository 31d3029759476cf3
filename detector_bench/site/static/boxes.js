"use strict";

/* The boxes that detectors looked at, drawn over a picture. */

detectorBenchReport.parts.boxes = (() => {
  const { columns, dom, words } = detectorBenchReport.parts;

  function read(content) {
    return content.stages.map((each) => ({
      ...each,
      looked: columns.numbers(each.looked),
      starts: columns.numbers(each.starts),
      corners: columns.numbers(each.corners),
      scores: columns.numbers(each.scores),
    }));
  }

  /** For each stage that looked at the image: its boxes as left, top, right, bottom in pixels, and their scores. */
  function ofImage(dataset, row) {
    return (dataset.boxes ?? [])
      .map((stage, number) => ({ stage, number }))
      .filter(({ stage }) => stage.looked[row])
      .map(({ stage, number }) => {
        const [first, end] = [stage.starts[row], stage.starts[row + 1]];
        const found = [];
        for (let index = first; index < end; index += 1) {
          found.push({ corners: stage.corners.subarray(4 * index, 4 * index + 4), score: stage.scores[index] });
        }
        return { stage, number, found };
      });
  }

  const area = ({ corners: [left, top, right, bottom] }) => (right - left) * (bottom - top);

  /** Draw over the frame's image as soon as its size is known; returns the switches below it. */
  function legend(frame, image, stages, dataset, row, hiddenStages) {
    if (!stages.length) return [];
    const groups = new Map();
    const draw = () => {
      const width = dataset.pictures.width[row] || image.naturalWidth;
      const height = dataset.pictures.height[row] || image.naturalHeight;
      const drawings = stages.map((each) => {
        const group = drawnStage(each, width);
        groups.set(each.number, group);
        group.classList.toggle("off", hiddenStages.has(each.number));
        return group;
      });
      frame.append(
        dom.drawing(
          "svg",
          { class: "boxes", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
          drawings,
        ),
      );
    };
    if (image.complete && image.naturalWidth) draw();
    else image.addEventListener("load", draw, { once: true });
    const switches = stages.map((each) => stageSwitch(each, groups, hiddenStages));
    return [dom.element("ul", { class: "legend", "aria-label": "Boxes" }, switches)];
  }

  /** The largest box is the one that detectors judge; the others are dashed. */
  function drawnStage({ number, found }, width) {
    const largest = found.reduce((best, each) => (best && area(best) >= area(each) ? best : each), null);
    const shapes = found.map((each) => {
      const [left, top, right, bottom] = each.corners;
      return dom.drawing("rect", {
        class: each === largest ? "largest" : "other",
        x: left,
        y: top,
        width: Math.max(0, right - left),
        height: Math.max(0, bottom - top),
        "stroke-width": Math.max(1, width / 160),
      });
    });
    return dom.drawing("g", { class: `stage stage-${number % 6}` }, shapes);
  }

  function stageSwitch({ stage, number, found }, groups, hiddenStages) {
    const box = dom.element("input", {
      type: "checkbox",
      checked: !hiddenStages.has(number),
      onchange: () => {
        if (box.checked) hiddenStages.delete(number);
        else hiddenStages.add(number);
        groups.get(number)?.classList.toggle("off", !box.checked);
      },
    });
    const count = found.length === 1 ? "1 box" : `${found.length} boxes`;
    const scores = found.length ? `, score ${found.map((each) => words.decimals(each.score, 2)).join(", ")}` : "";
    return dom.element(
      "li",
      {},
      dom.element(
        "label",
        {},
        box,
        dom.element("span", { class: `swatch stage-${number % 6}`, "aria-hidden": "true" }),
        dom.element("span", {}, `${words.inWords(stage.stage)}: ${count}${scores}`),
        dom.element("span", { class: "muted" }, `read by ${stage.detectors.join(", ")}`),
      ),
    );
  }

  return { read, ofImage, legend };
})();
