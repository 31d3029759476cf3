"use strict";

/* How people read labels, verdicts and outcomes. */

detectorBenchReport.parts.words = (() => {
  const VERDICTS = ["filtered", "error", "not_run"];

  /** What became of an image by one detector; the position is the code. */
  const OUTCOMES = [
    { value: "right_class", name: "Right class", mark: "✓", tone: "right" },
    { value: "wrong_class", name: "Wrong class", mark: "✕", tone: "wrong" },
    { value: "lost", name: "Clear, but filtered", mark: "▽", tone: "wrong" },
    { value: "kept", name: "Low-quality, but kept", mark: "△", tone: "wrong" },
    { value: "filtered_rightly", name: "Low-quality and filtered", mark: "○", tone: "right" },
    { value: "no_verdict", name: "No verdict", mark: "!", tone: "none" },
    { value: "not_compared", name: "Not compared", mark: "·", tone: "none" },
  ];

  const GROUP_OUTCOMES = [
    { value: "all_right", name: "All are right" },
    { value: "some_wrong", name: "Some are wrong" },
    { value: "all_wrong", name: "All are wrong" },
  ];

  const ANNOTATORS = [
    { value: "agree", name: "They agree" },
    { value: "disagree", name: "They disagree" },
  ];

  const PICTURES = [
    { value: "problem", name: "Cannot be shown" },
    { value: "changed", name: "Changed since it was judged" },
  ];

  /** `low_quality` becomes `Low-quality`, `middle_aged` becomes `Middle aged`. */
  function inWords(label) {
    const text = label === "low_quality" ? "low-quality" : label.replaceAll("_", " ");
    return text.slice(0, 1).toUpperCase() + text.slice(1);
  }

  const written = new Intl.NumberFormat("en");
  const count = (number) => (number < 1000 ? String(number) : written.format(number));

  const images = (number) => (number === 1 ? "1 image" : `${count(number)} images`);

  const decimals = (value, digits) => (Number.isNaN(value) ? "" : value.toFixed(digits));

  return { VERDICTS, OUTCOMES, GROUP_OUTCOMES, ANNOTATORS, PICTURES, inWords, count, images, decimals };
})();
