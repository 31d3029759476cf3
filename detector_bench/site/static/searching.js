"use strict";

/* Text search over ids, prompts, reasons and raw answers; every distinct text is looked at once. */

detectorBenchReport.parts.searching = (() => {
  /** 1 for every image in whose texts each of the words occurs, without regard to case; null for no words. */
  function search(text, dataset, attribute) {
    const terms = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!terms.length) return null;
    const mask = new Uint8Array(dataset.count).fill(1);
    for (const term of terms) {
      const found = new Uint8Array(dataset.count);
      for (const { words, codes } of texts(dataset, attribute)) markAll(found, codes, matches(words, term));
      markAll(found, null, matches(dataset.imageIds, term));
      markAll(found, null, matches(dataset.paths, term));
      for (let row = 0; row < mask.length; row += 1) mask[row] &= found[row];
    }
    return mask;
  }

  function texts(dataset, attribute) {
    const { prompts } = dataset;
    const ofPrompts = ["prompt_id", "category", "word", "prompt"];
    return [
      ...ofPrompts.map((name) => ({ words: prompts[name], codes: dataset.prompt })),
      dataset.model,
      attribute.reason,
      ...attribute.detectors.flatMap((each) => [each.reason, ...(each.raw ? [each.raw] : [])]),
    ];
  }

  const matches = (words, term) => Uint8Array.from(words, (word) => (word ?? "").toLowerCase().includes(term));

  /** Mark the images whose word matches; without codes, every image has a word of its own. */
  function markAll(found, codes, matching) {
    if (!codes) {
      for (let row = 0; row < found.length; row += 1) found[row] |= matching[row];
    } else if (matching.includes(1)) {
      for (let row = 0; row < found.length; row += 1) found[row] |= matching[codes[row]] ?? 0;
    }
  }

  return { search };
})();
