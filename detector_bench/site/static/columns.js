"use strict";

/* Columns as Python writes them (site/image_columns.py), turned into typed arrays. */

detectorBenchReport.parts.columns = (() => {
  const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i2: Int16Array, f4: Float32Array };

  /** Numbers, or positions in a list of words: a position beyond the list's end is an empty cell. */
  function numbers(column) {
    const text = atob(column.bytes);
    const bytes = new Uint8Array(text.length);
    for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
    return new TYPES[column.type](bytes.buffer);
  }

  /** Words with a code for every row; `at(row)` gives the word, "" for an empty cell. */
  function words(column) {
    const codes = numbers(column.codes);
    const list = column.words;
    return { words: list, codes, at: (row) => list[codes[row]] ?? "" };
  }

  return { numbers, words };
})();
