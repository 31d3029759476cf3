"use strict";

/* Where data scripts hand over their content, and where the parts of the page find each other. */

window.detectorBenchReport = (() => {
  const received = new Map();
  const waiting = new Map();

  return {
    /** The parts of the page, by the name of their file. */
    parts: {},

    /** Called by a data script; the content is JSON text. */
    add(name, text) {
      received.set(name, JSON.parse(text));
      for (const callback of waiting.get(name) ?? []) callback(received.get(name));
      waiting.delete(name);
    },

    get(name) {
      return received.get(name);
    },

    /** Call back with some data now, or as soon as they are here. */
    whenAdded(name, callback) {
      if (received.has(name)) callback(received.get(name));
      else waiting.set(name, [...(waiting.get(name) ?? []), callback]);
    },
  };
})();
