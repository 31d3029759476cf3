// What was said about a picture, side by side, and the answers to decide with.

import { announce, element, t } from "./shared.js";

const LOW_QUALITY = "low_quality";
const OTHERS = "others";

export class CasePanel {
  #root;
  #view;
  #decide;
  #mode = "choices";
  #one = null;
  #note = "";

  /** `view` is what the desk sent; `decide(choice)` is called with null for "unresolved". */
  constructor(root, view, decide) {
    this.#root = root;
    this.#view = view;
    this.#decide = decide;
  }

  /** Show a disagreement. */
  show(one, { heading }) {
    this.#one = one;
    this.#heading = heading;
    this.#note = one.decision?.choice?.note ?? "";
    this.#setMode("choices");
  }

  /** Act on a key; gives whether it meant anything here. */
  key(event) {
    if (this.#one === null) return false;
    const key = event.key.toLowerCase();
    if (this.#mode === "reasons") return this.#reasonKey(key, event.target instanceof HTMLButtonElement);
    if (this.#mode !== "choices") return false;
    if (key === "x") this.#decide(null);
    else {
      const label = { l: LOW_QUALITY, o: OTHERS }[key] ?? this.#question.choices.find((choice) => choice.key === key)?.label;
      if (label === undefined) return false;
      this.#choose(label);
    }
    return true;
  }

  /** Open the field for a note on the decision. */
  askNote() {
    if (this.#one !== null && this.#mode === "choices") this.#setMode("note");
  }

  /** Close what is open over the choices; gives whether anything was. */
  cancel() {
    if (this.#mode === "choices") return false;
    this.#setMode("choices");
    this.#root.closest("section").focus({ preventScroll: true });
    return true;
  }

  /** The text of a decision: "Male", "Low quality: blurred", "Left unresolved". */
  inWords(one, decision) {
    if (decision.choice === null) return t("Left unresolved");
    const question = this.#view.questions.find(({ name }) => name === one.question);
    return saidInWords(decision.choice, question, this.#view.reasons).filter((part) => part !== "").join(": ");
  }

  get #question() {
    return this.#view.questions.find(({ name }) => name === this.#one.question);
  }

  #choose(label) {
    if (label === LOW_QUALITY) this.#setMode("reasons");
    else if (label === OTHERS) this.#setMode(OTHERS);
    else this.#decide({ label, reason: "", note: this.#note, value: null });
  }

  #reasonKey(key, isOnButton) {
    const reason = this.#view.reasons.find((known) => known.key === key);
    if (reason !== undefined) this.#giveReason(reason.label);
    else if (key === "l" || (key === "enter" && !isOnButton)) this.#giveReason("");
    else return false;
    return true;
  }

  #giveReason(reason) {
    this.#decide({ label: LOW_QUALITY, reason, note: this.#note, value: null });
  }

  #giveText(text) {
    this.#note = text.trim();
    if (this.#mode === OTHERS) this.#decide({ label: OTHERS, reason: "", note: this.#note, value: null });
    else if (this.#one.decision?.choice) this.#decide({ ...this.#one.decision.choice, note: this.#note });
    else this.cancel();
  }

  #setMode(mode) {
    this.#mode = mode;
    const views = { choices: () => this.#choicesView(), reasons: () => this.#reasonsView() };
    this.#root.replaceChildren(...(views[mode] ?? (() => this.#textView()))());
    if (mode === "reasons") announce(t("Why can it not be judged?"));
    this.#root.querySelector("textarea")?.focus();
  }

  #choicesView() {
    const one = this.#one;
    const { choices } = this.#question;
    const buttons = choices.map(({ label, text, key, colour }) => answerButton({
      text, key, colour, hint: one.choices.filter((choice) => choice.label === label).map(({ name }) => name).join(", "),
      isPressed: one.decision?.choice?.label === label, onclick: () => this.#choose(label),
    }));
    buttons.push(answerButton({
      text: t("Leave unresolved"), key: "X", hint: t("counts as low quality"), isPressed: one.decision !== null && one.decision.choice === null,
      onclick: () => this.#decide(null),
    }));
    return [
      element("div", { class: "panel-head" }, element("p", { class: "where small muted number" }, this.#heading), ...badges(one)),
      element("h1", {}, this.#question.text),
      element("div", { class: "said", role: "group", "aria-label": t("What was said") }, ...one.choices.map((choice) => this.#saidCard(choice))),
      element("div", { class: "group", role: "group", "aria-label": t("Decision") },
        element("div", { class: choices.length > 5 ? "answers decide many" : "answers decide" }, ...buttons),
        one.decision === null ? null : element("p", { class: "outcome small" }, t("Decided: {what}", { what: this.inWords(one, one.decision) }))),
      this.#note === "" ? "" : element("p", { class: "note small" }, t("Note: {text}", { text: this.#note })),
    ];
  }

  #saidCard(choice) {
    const [label, detail] = saidInWords(choice, this.#question, this.#view.reasons);
    const note = choice.label === OTHERS ? "" : choice.note;
    return element("article", { class: "said-by" },
      element("h2", { class: "small muted" }, choice.name),
      element("p", { class: "said-label" }, label),
      detail === "" ? null : element("p", { class: "small" }, detail),
      note === "" ? null : element("p", { class: "said-note small" }, note));
  }

  #reasonsView() {
    const said = (label) => this.#one.choices.filter((choice) => choice.label === LOW_QUALITY && choice.reason === label).map(({ name }) => name).join(", ");
    const buttons = this.#view.reasons.map(({ label, text, key }) => answerButton({
      text, key, hint: said(label), isPressed: false, onclick: () => this.#giveReason(label),
    }));
    buttons.push(answerButton({ text: t("No particular reason"), key: "L", hint: "", isPressed: false, onclick: () => this.#giveReason("") }));
    return [element("h1", { id: "reason-title" }, t("Why can it not be judged?")),
      element("div", { class: "answers reasons", role: "group", "aria-labelledby": "reason-title" }, ...buttons), this.#backButton()];
  }

  #textView() {
    const isOther = this.#mode === OTHERS;
    const text = element("textarea", {
      rows: "3", maxlength: "2000", "aria-labelledby": "text-title",
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.#giveText(text.value);
      },
    });
    text.value = this.#note;
    return [element("h1", { id: "text-title" }, isOther ? t("Other: say why in a few words") : t("A note on the decision")), text,
      element("div", { class: "row" },
        element("button", { type: "button", class: "primary", onclick: () => this.#giveText(text.value) }, `${t("Save")} `, kbd("Enter")),
        this.#backButton())];
  }

  #backButton() {
    return element("button", { type: "button", class: "quiet", onclick: () => this.cancel() }, `${t("Back")} `, kbd("Esc"));
  }

  #heading = "";
}

/** A label and what stands behind it: the reason, the note of "other", the number. */
function saidInWords(choice, question, reasons) {
  const label = question.choices.find((known) => known.label === choice.label)?.text ?? choice.label;
  if (choice.label === OTHERS) return [label, choice.note];
  if (choice.label === LOW_QUALITY) return [label, reasons.find((known) => known.label === choice.reason)?.text ?? choice.reason];
  return [label, choice.value === null ? "" : `${choice.value} ${question.unit}`.trim()];
}

function badges(one) {
  const badge = (text) => element("span", { class: "badge" }, text);
  const made = one.in_calibration ? [badge(t("Calibration round"))] : [];
  if (one.decision?.outdated) made.push(badge(t("A label has changed since")));
  else if (one.decision !== null) made.push(badge(t("Decided")));
  return made;
}

const kbd = (key) => element("kbd", { "aria-hidden": "true" }, key);

function answerButton({ text, hint, key, colour = "", isPressed, onclick }) {
  const swatch = colour === "" ? null : element("span", { class: "swatch" });
  if (swatch !== null) swatch.style.backgroundColor = colour;
  return element("button", { type: "button", class: "answer", "aria-keyshortcuts": key.toLowerCase(), "aria-pressed": String(isPressed), onclick },
    kbd(key.toUpperCase()), swatch, element("span", { class: "answer-text" }, text, hint === "" ? null : element("small", {}, hint)));
}
