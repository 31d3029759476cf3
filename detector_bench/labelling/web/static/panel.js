// The question and its answers: what is shown beside the picture, and what its keys mean.

import { announce, element, t } from "./shared.js";

const LOW_QUALITY = "low_quality";
const OTHERS = "others";

export class Panel {
  #root;
  #session;
  #actions;
  #groups = new Map();
  #steps = [];
  #mode = "choices";
  #item = null;
  #choices = {};
  #active = 0;
  #scope = [];
  #may = "answer";
  #badge;
  #heading;
  #note;
  #choicesView;
  #reasonsView;
  #reasonTitle;
  #textView;
  #textTitle;
  #textHint;
  #text;

  /**
   * `actions.choose(choices)`: labels by question, for one or several questions at once;
   * `actions.note(text)`: a note for the discussion.
   */
  constructor(root, session, actions) {
    this.#root = root;
    this.#session = session;
    this.#actions = actions;
    this.isMultiple = session.questions.length > 1;
    this.#build();
  }

  /** Show an item; `choices` are its answers so far, by question. `may` is "answer", "say low quality" or "skip". */
  show({ item, choices, heading, badge, note, may }) {
    if (item !== this.#item) this.#active = 0;
    this.#item = item;
    this.#choices = choices;
    this.#heading.textContent = heading;
    this.#badge.textContent = badge;
    this.#badge.hidden = badge === "";
    this.#note.textContent = note === "" ? "" : t("Note: {text}", { text: note });
    this.#note.hidden = note === "";
    this.#may = item.locked ? "look" : may;
    const open = this.#session.questions.findIndex((question) => choices[question.name] === undefined);
    if (open >= 0) this.#active = open;
    this.#setMode("choices");
  }

  /** Act on a key; gives whether it meant anything here. */
  key(event) {
    if (this.#item === null) return false;
    if (this.#mode === "reasons") return this.#reasonKey(event);
    if (this.#mode !== "choices") return false;
    if (this.isMultiple && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#activate((this.#active + step + this.#groups.size) % this.#groups.size);
      return true;
    }
    if (event.key === "L") return this.#askReason([this.#activeQuestion.name]);
    const key = event.key.toLowerCase();
    if (key === "l") return this.#askReason(this.#remaining());
    if (key === "o") return this.#askText(OTHERS);
    const found = this.#meant(key);
    if (found === undefined) return false;
    this.#choose(found.question, { label: found.choice.label });
    return true;
  }

  /** The answer that a key stands for: to the marked question if it has that key, else to an open one, else to any. */
  #meant(key) {
    const { questions } = this.#session;
    const open = questions.filter((question) => this.#choices[question.name] === undefined);
    const asked = this.#session.task === "pairs" ? [this.#activeQuestion] : [this.#activeQuestion, ...open, ...questions];
    for (const question of asked) {
      const choice = question.choices.find((one) => one.key === key);
      if (choice !== undefined) return { question, choice };
    }
    return undefined;
  }

  /** Ask for a note for the discussion. */
  askNote() {
    this.#askText("note");
  }

  /** Close what is open over the choices; gives whether anything was. */
  cancel() {
    if (this.#mode === "choices") return false;
    this.#setMode("choices");
    this.#root.closest("section").focus({ preventScroll: true });
    return true;
  }

  get #activeQuestion() {
    return this.#session.questions[this.#active];
  }

  /** The questions that `l` answers: those that are open, or all if none is. */
  #remaining() {
    const names = this.#session.questions.map((question) => question.name);
    const open = names.filter((name) => this.#choices[name] === undefined);
    return open.length > 0 ? open : names;
  }

  #activate(index) {
    this.#active = index;
    this.#render();
    announce(this.#activeQuestion.text);
  }

  #choose(question, choice) {
    if (!this.#mayGive(choice.label)) return;
    this.#actions.choose({ [question.name]: { reason: "", note: "", value: null, ...choice } });
  }

  #mayGive(label) {
    if (this.#may === "answer" || (this.#may === "say low quality" && label === LOW_QUALITY)) return true;
    announce(this.#may === "look" ? t("This answer is closed: the calibration round was discussed.")
      : t("What cannot be seen cannot be judged."));
    return false;
  }

  #askReason(names) {
    if (!this.#mayGive(LOW_QUALITY)) return true;
    this.#scope = names;
    const asked = this.#session.questions.filter((question) => names.includes(question.name));
    // Of several questions their short names: the sentence has to fit beside the picture.
    const what = asked.length > 1 ? asked.map(({ short }) => short).join(", ") : asked[0].title;
    this.#reasonTitle.textContent = t("{what}: why can it not be judged?", { what });
    this.#setMode("reasons");
    announce(this.#reasonTitle.textContent);
    return true;
  }

  #giveReason(reason) {
    const choice = { label: LOW_QUALITY, reason, note: "", value: null };
    this.#actions.choose(Object.fromEntries(this.#scope.map((name) => [name, choice])));
  }

  #reasonKey(event) {
    const reason = this.#session.reasons.find((one) => one.key === event.key);
    const isOnButton = event.target instanceof HTMLButtonElement;
    if (reason !== undefined) this.#giveReason(reason.label);
    else if (event.key.toLowerCase() === "l" || (event.key === "Enter" && !isOnButton)) this.#giveReason("");
    else return false;
    return true;
  }

  #askText(mode) {
    if (!this.#mayGive(OTHERS)) return true;
    const isNote = mode === "note";
    this.#textTitle.textContent = isNote ? t("A note for the discussion") : t("Other: {what}", { what: this.#activeQuestion.title });
    this.#textHint.textContent = isNote ? t("It is kept with your next answer to this picture.")
      : t("You can judge, but no class fits. Say why in a few words.");
    this.#setMode(mode);
    const previous = this.#choices[this.#activeQuestion.name];
    this.#text.value = previous?.note ?? "";
    this.#text.focus();
    return true;
  }

  #giveText() {
    const text = this.#text.value.trim();
    const mode = this.#mode;
    this.cancel();
    if (mode === OTHERS) this.#choose(this.#activeQuestion, { label: OTHERS, note: text });
    else this.#actions.note(this.#activeQuestion.name, text);
  }

  #setMode(mode) {
    this.#mode = mode;
    this.#render();
  }

  #render() {
    const { questions } = this.#session;
    // What is put away keeps its room, so that the picture beside it keeps its size.
    this.#choicesView.inert = this.#mode !== "choices";
    this.#reasonsView.inert = this.#mode !== "reasons";
    this.#textView.inert = this.#mode !== "note" && this.#mode !== OTHERS;
    this.#choicesView.style.setProperty("--columns", columnsFor(questions[this.#active]));
    questions.forEach((question, index) => {
      const { group, buttons, outcome } = this.#groups.get(question.name);
      group.classList.toggle("current", index === this.#active);
      this.#steps[index]?.setAttribute("aria-pressed", String(index === this.#active));
      this.#steps[index]?.classList.toggle("answered", this.#choices[question.name] !== undefined);
      const chosen = this.#choices[question.name];
      const isActive = this.isMultiple && index === this.#active && this.#may === "answer";
      if (isActive && !group.classList.contains("active")) group.scrollIntoView({ block: "nearest" });
      group.classList.toggle("active", isActive);
      for (const [label, button] of buttons) {
        button.setAttribute("aria-pressed", String(chosen?.label === label));
        const isOpen = this.#may === "answer" || (this.#may === "say low quality" && label === LOW_QUALITY);
        button.setAttribute("aria-disabled", String(!isOpen));
      }
      outcome.textContent = this.#outcome(chosen);
      outcome.hidden = outcome.textContent === "";
    });
  }

  /** What a choice says that no pressed button shows. */
  #outcome(chosen) {
    if (chosen?.label === LOW_QUALITY) {
      const reason = this.#session.reasons.find((one) => one.label === chosen.reason);
      return reason === undefined ? t("Cannot be judged") : t("Cannot be judged: {reason}", { reason: reason.text });
    }
    return chosen?.label === OTHERS && chosen.note !== "" ? t("Other: {what}", { what: chosen.note }) : "";
  }

  #build() {
    this.#badge = element("span", { class: "badge" });
    this.#heading = element("p", { class: "where small muted number" });
    this.#note = element("p", { class: "note small" });
    this.#choicesView = element("div", { class: "choices" });
    const groups = element("div", { class: "groups" });
    this.#session.questions.forEach((question, index) => groups.append(this.#buildGroup(question, index)));
    if (this.isMultiple) this.#choicesView.append(element("h1", { class: "only-read-aloud" }, t("Questions about this picture")));
    if (this.isMultiple) this.#choicesView.append(this.#buildSteps());
    this.#choicesView.append(groups);
    const rows = (question) => Math.ceil((question.choices.length + (this.isMultiple ? 3 : 2)) / columnsFor(question));
    this.#choicesView.style.setProperty("--most-rows", Math.max(...this.#session.questions.map(rows)));
    if (this.isMultiple) {
      this.#choicesView.append(answerButton({
        text: t("The rest cannot be judged"), hint: "", key: "L",
        onclick: () => this.#askReason(this.#remaining()),
      }));
    }
    this.#buildReasons();
    this.#buildText();
    this.#root.replaceChildren(
      element("div", { class: "panel-head" }, this.#heading, this.#badge), this.#note,
      element("div", { class: "views" }, this.#choicesView, this.#reasonsView, this.#textView),
    );
  }

  /** On a phone one question is shown at a time; these lead from one to the other. */
  #buildSteps() {
    this.#steps = this.#session.questions.map((question, index) => element("button", {
      type: "button", class: "step", "aria-pressed": "false", onclick: () => this.#activate(index),
    }, question.short));
    return element("div", { class: "steps", role: "group", "aria-label": t("Questions about this picture") }, ...this.#steps);
  }

  #buildGroup(question, index) {
    const id = `question-${question.name}`;
    const title = element(this.isMultiple ? "h2" : "h1", { id }, this.isMultiple ? question.short : question.text);
    const outcome = element("p", { class: "outcome small", hidden: true });
    const grid = element("div", { class: `answers answers-${question.choices.length}${kindOf(question)}` });
    const buttons = new Map();
    for (const choice of question.choices) {
      const button = answerButton({
        ...choice, key: choice.key.toUpperCase(),
        onclick: () => { this.#active = index; this.#choose(question, { label: choice.label }); },
      });
      buttons.set(choice.label, button);
      grid.append(button);
    }
    const low = () => { this.#active = index; this.#askReason([question.name]); };
    const other = () => { this.#active = index; this.#askText(OTHERS); };
    const apart = this.isMultiple
      ? [element("button", { type: "button", class: "quiet minor", onclick: low }, `${t("Cannot tell")} `, kbd("⇧L")),
        element("button", { type: "button", class: "quiet minor", onclick: other }, `${t("Other")} `, kbd("O"))]
      : [answerButton({ text: t("Low quality"), hint: t("cannot be judged"), key: "L", onclick: low }),
        answerButton({ text: t("Other"), hint: t("can be judged, but no answer fits"), key: "O", onclick: other })];
    buttons.set(LOW_QUALITY, apart[0]);
    buttons.set(OTHERS, apart[1]);
    const head = element("div", { class: "group-head" }, title);
    const group = element("div", { class: "group", role: "group", "aria-label": question.text }, head);
    if (this.isMultiple) head.append(element("span", { class: "minors" }, ...apart));
    else {
      for (const button of apart) button.classList.add("apart");
      grid.append(...apart);
    }
    group.append(grid, outcome);
    this.#groups.set(question.name, { group, buttons, outcome });
    return group;
  }

  #buildReasons() {
    this.#reasonTitle = element("h1", { id: "reason-title" });
    const buttons = this.#session.reasons.map((reason) => answerButton({
      ...reason, onclick: () => this.#giveReason(reason.label),
    }));
    buttons.push(answerButton({ text: t("No particular reason"), hint: "", key: "L", onclick: () => this.#giveReason("") }));
    this.#reasonsView = element("div", { class: "reasons", role: "group", "aria-labelledby": "reason-title" },
      this.#reasonTitle, element("div", { class: "answers" }, ...buttons),
      element("button", { type: "button", class: "quiet", onclick: () => this.cancel() }, `${t("Back to the answers")} `, kbd("Esc")));
  }

  #buildText() {
    this.#textTitle = element("h1", { id: "text-title" });
    this.#textHint = element("p", { class: "small muted", id: "text-hint" });
    this.#text = element("textarea", {
      rows: "3", maxlength: "2000", "aria-labelledby": "text-title", "aria-describedby": "text-hint",
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.#giveText();
        }
      },
    });
    this.#textView = element("div", { class: "text-answer" }, this.#textTitle, this.#textHint, this.#text,
      element("div", { class: "row" },
        element("button", { type: "button", class: "primary", onclick: () => this.#giveText() }, `${t("Save")} `, kbd("Enter")),
        element("button", { type: "button", class: "quiet", onclick: () => this.cancel() }, `${t("Cancel")} `, kbd("Esc"))));
  }
}

/** How answers stand beside a large picture: in columns if there are many; shades of skin tone have a way of their own. */
function kindOf({ choices }) {
  if (choices.length <= 5 || choices.some(({ colour }) => colour !== "")) return "";
  return choices.length > 7 ? " many very-many" : " many";
}

/** Where there is little room: as many answers side by side. */
const columnsFor = (question) => (question.choices.length > 4 ? 3 : 2);

const kbd = (key) => element("kbd", { "aria-hidden": "true" }, key);

function answerButton({ text, hint, key, colour = "", onclick }) {
  const swatch = colour === "" ? null : element("span", { class: "swatch" });
  if (swatch !== null) swatch.style.backgroundColor = colour;
  return element("button", { type: "button", class: "answer", "aria-keyshortcuts": key.toLowerCase(), onclick },
    kbd(key), swatch, element("span", { class: "answer-text" }, text, hint ? element("small", {}, hint) : null));
}
