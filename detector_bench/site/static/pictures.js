"use strict";

/* The picture of an image in any size, or a placeholder that says why there is none. */

detectorBenchReport.parts.pictures = (() => {
  const { dom } = detectorBenchReport.parts;

  /** Where the small or the large picture lies; null where there is none. */
  function address(dataset, row, size) {
    const { mode, name, small, large } = dataset.pictures;
    if (!name[row]) return null;
    if (mode === "link") return name[row];
    return `${(size === "large" && large) || small}/${name[row]}.webp`;
  }

  function placeholder(dataset, row, text) {
    const reason = text ?? (dataset.pictures.problem.at(row) || "Left out of this report");
    return dom.element("span", { class: "placeholder" }, dom.element("span", {}, reason));
  }

  /** An image element, or a placeholder; a file that is gone becomes a placeholder, too. */
  function picture(dataset, row, size, alternative) {
    const source = address(dataset, row, size);
    if (!source) return placeholder(dataset, row);
    const image = dom.element("img", {
      alt: alternative,
      decoding: "async",
      loading: size === "large" ? "eager" : "lazy",
      draggable: false,
    });
    image.addEventListener("error", () => {
      image.replaceWith(placeholder(dataset, row, "The picture’s file cannot be shown"));
    });
    image.src = source;
    return image;
  }

  return { address, picture };
})();
