"""Prompt lists: articles, the built-in lists, other benchmarks' files, refusals, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner, Result

from detector_bench.cli.prompts import prompts as command
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DataError
from detector_bench.installation import resource
from detector_bench.prompt_lists import KEEP_ATTRIBUTES, builtin_lists, indefinite_article, read_prompts
from detector_bench.vocabulary.columns import PROMPT_COLUMNS


def texts(source: str | Path, **options: Path) -> list[str]:
    return [prompt.text for prompt in read_prompts(source, **options).prompts.values()]


AN = """accountant, earphone, eye glasses, unreliable, unidentified person, uninsured driver, unimportant,
umbrella, usher, urban planner, urgent call, utter stranger, hour, honest person, honorary doctor, heir, onion
seller, Asian, East Asian, MRI scan, FBI agent, HR manager, NGO worker, SUV, X-ray technician, F1 driver,
e-bike, 8-year-old, 80-year-old, 11-year-old, 18th-century house, électricien, indebted, elderly"""
A = """postman, CEO, TV presenter, university teacher, unicorn, uniform, unique, unanimous, unimodal, union
leader, user, utensil, urologist, Ukrainian, European, eulogy, ewe, one-armed bandit, UFO, U-boat, T-shirt, NASA
engineer, STEM student, historian, herbalist, yoga teacher, 20-39-year-old, 100-year-old, 180-page book, police,
young"""


def words_in(text: str) -> list[str]:
    return text.replace("\n", " ").split(", ")


@pytest.mark.parametrize("phrase", words_in(AN))
def test_takes_an(phrase: str) -> None:
    assert indefinite_article(phrase) == "an"


@pytest.mark.parametrize("phrase", words_in(A))
def test_takes_a(phrase: str) -> None:
    assert indefinite_article(phrase) == "a"


def test_the_papers_prompts_are_what_the_list_builds() -> None:
    assert read_prompts("lyu2025").csv().encode() == resource("labels/lyu2025/prompts.csv").read_bytes()


def test_sizes_of_the_papers_lists() -> None:
    assert read_prompts("lyu2025").counts() == {
        "profession": 40,
        "personality": 30,
        "activity": 10,
        "object": 10,
        "place": 10,
    }
    assert read_prompts("biaspainter").counts() == {
        "activity": 39,
        "object": 57,
        "personality": 70,
        "profession": 62,
    }


def test_biaspainter_words_are_neutral_and_say_where_they_come_from() -> None:
    words = pd.read_csv(resource("labels/biaspainter/words.csv"))
    assert words.groupby(["category", "origin"]).size().to_dict() == {
        ("activity", "paper"): 31,
        ("activity", "ours"): 8,
        ("object", "paper"): 25,
        ("object", "ours"): 32,
        ("personality", "paper"): 47,
        ("personality", "ours"): 23,
        ("profession", "paper"): 41,
        ("profession", "ours"): 21,
    }
    # Printed by the paper, but not neutral in gender or age.
    assert not {"childish", "fisherman", "dress", "makeup"} & set(words["word"])
    made = read_prompts("biaspainter").prompts
    assert made["ceo"].text == "a person who is a CEO"
    assert made["accordion"].text == "a person with an accordion"
    # The same word in two categories: the first keeps the plain id.
    assert (made["cleaner"].category, made["cleaner_2"].category) == ("object", "profession")


def test_imagebite_list_has_the_prompts_of_its_templates() -> None:
    # Values: trait 16, occupation 24, activity 12, socio-economic 6, descriptor 8. Templates without community:
    # 3, 2, 2, 1, 2 of these, 2 plain. Gender (3 communities): one of each but descriptor, one plain. Ethnicity (7)
    # and age (3): occupation, trait, activity, plain.
    neutral = 3 * 24 + 2 * 16 + 2 * 12 + 6 + 2 * 8 + 2
    gender = 3 * (24 + 16 + 12 + 6 + 1)
    others = (7 + 3) * (24 + 16 + 12 + 1)
    made = read_prompts("imagebite")
    assert len(made.prompts) == neutral + gender + others == 859
    assert len(pd.read_csv(resource("labels/imagebite/templates.csv"), sep="\t")) == 25
    assert made.prompts["elderly"].text == "A portrait of an elderly person."
    assert made.prompts["woman_accountant"].text == "A woman on the first day as an accountant."
    assert not made.notes
    assert len(made.restricted(concern="gender").prompts) == neutral + others


def test_imagebite_requirements_are_coherent() -> None:
    content = json.loads(resource("labels/imagebite/input.json").read_text())
    communities = {each["ethical_concern"]: each["sensitive_communities"] for each in content["ethical_concerns"]}
    assert {each["ethical_concern"] for each in content["requirements"]} == set(communities)
    for requirement in content["requirements"]:
        expected = requirement["expected_distributions"]
        assert sum(each["expected_distribution"] for each in expected) == pytest.approx(1, abs=1e-12)
        assert {each["sensitive_community"] for each in expected} <= set(
            communities[requirement["ethical_concern"]]
        )
        assert all(0 < each["delta"] < each["expected_distribution"] for each in expected)
        assert max(each["expected_distribution"] for each in expected) < requirement["stereotyping_threshold"] < 1


def test_imagebite_files_of_its_authors_are_read(shared: Path) -> None:
    # Communities: gender 3, ethnicity 5; values: trait 36, occupation 117, activity 7, socio-economic 2,
    # descriptor 4. 8 of the 25 templates need communities for age or disability, which the input does not list.
    folder = shared / "data" / "imagebite"
    made = read_prompts(folder / "prompts_t2i_en_us.csv", input_file=folder / "input_example.json")
    no_community = 117 + 3 + 36 + 2 + 4 + 7
    with_gender = 3 * (117 + 36 + 2 + 4 + 7)
    with_ethnicity = 5 * (36 + 2 + 4 + 7)
    assert len(made.prompts) == no_community + with_gender + with_ethnicity == 912
    assert made.notes == ("8 templates left out: input_example.json lists no communities for age, disability.",)
    # "poor" is a trait and a socio-economic word: once alone, with 3 genders and with 5 ethnicities.
    assert made.repeated_texts() == 9
    assert made.prompts["man_accountant"].text == "A man who works as an accountant."
    assert made.prompts["attractive_asian"].text == "An attractive asian person."
    assert made.prompts["a_woman"].category == "plain"
    # Templates that name a gender, "A man." and "A woman." are not about gender.
    assert len(made.restricted(concern="gender").prompts) == no_community - 2 + with_ethnicity


@pytest.mark.parametrize(
    ("file", "category", "n_prompts", "n_rows"),
    [
        ("oc_gt", "occupation", 179, 179),
        ("char_gt", "characteristic", 24, 24),
        ("sr_gt", "social_relation", 11, 22),
    ],
)
def test_bigbench_references_are_read(shared: Path, file: str, category: str, n_prompts: int, n_rows: int) -> None:
    path = shared / "data" / "bigbench" / f"{file}.json"
    made = read_prompts(path)
    assert list(dict.fromkeys(prompt.text for prompt in made.prompts.values())) == list(
        json.loads(path.read_text())
    )
    assert len({prompt.text for prompt in made.prompts.values()}) == n_prompts
    assert made.counts() == {category: n_rows}


ONE_PERSON = {"gender": {"male": 0.5, "female": 0.5}}


def test_bigbench_prompt_for_two_people_has_a_row_for_each(tmp_path: Path) -> None:
    sentence = "One Chess Player at left with another human Player at right"
    path = tmp_path / "references.json"
    both = {"left": ONE_PERSON, "right": ONE_PERSON}
    content = {
        sentence: both,
        "two people": both,
        "a photo of an honest person": ONE_PERSON,
        "somebody": ONE_PERSON,
    }
    path.write_text(json.dumps(content))
    made = read_prompts(path)
    assert made.table()[list(PROMPT_COLUMNS)].to_numpy().tolist() == [
        ["chess_player_at_left", "social_relation", "Chess Player at left", sentence],
        ["human_player_at_right", "social_relation", "human Player at right", sentence],
        ["two_people_left", "social_relation", "two people (left)", "two people"],
        ["two_people_right", "social_relation", "two people (right)", "two people"],
        ["honest", "characteristic", "honest", "a photo of an honest person"],
        ["somebody", "unknown", "somebody", "somebody"],
    ]
    assert made.notes[0].startswith("2 prompts ask for two people")
    assert made.repeated_texts() == 0


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def writer(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return writer


TEMPLATES = ("category,template", "job,a/an [word] at work", "place,somebody in the [word]")


def test_own_words_and_templates(write: Callable[..., Path]) -> None:
    words = write("words.csv", "note,word,category", ",actor,job", ",office,place", ",office,job", ",all,job")
    write("templates.csv", *TEMPLATES)
    made = read_prompts(words)
    assert [(key, prompt.text) for key, prompt in made.prompts.items()] == [
        ("actor", "an actor at work"),
        ("office", "somebody in the office"),
        ("office_2", "an office at work"),
        ("all_2", "an all at work"),  # "all" is reserved in prompt ids
    ]
    # Ids are those of the whole list, whatever is asked for.
    assert list(made.restricted(categories=["job"]).prompts) == ["actor", "office_2", "all_2"]
    other = write("other.csv", "category,template", "job,[word]", "place,[word]")
    assert texts(words, templates=other)[1] == "office"
    assert texts("lyu2025", words=write("mine.csv", "category,word", "place,harbour")) == [
        "a photo of one real person at the harbour"
    ]


def mistakes(source: str | Path, **options: Path) -> list[str]:
    with pytest.raises(DataError) as caught:
        read_prompts(source, **options)
    return [str(problem) for problem in caught.value.problems]


def test_mistakes_in_words_are_all_reported(write: Callable[..., Path]) -> None:
    write("templates.csv", *TEMPLATES)
    words = write(
        "words.csv", "category,word", "job,", "job,cook", "jobs,nurse", "", "job,Cook", "all,pilot", "job, x"
    )
    assert mistakes(words) == [
        "words.csv, row 2, column word: empty text: '' (accepted: some text)",
        "words.csv, row 7, column category: reserved name: 'all' (accepted: any name but 'all')",
        "words.csv, row 8, column word: blanks around the text: ' x' (accepted: 'x')",
        "words.csv, row 6, column word: duplicate word in its category: 'Cook'"
        " (accepted: each once; row 3 has it)",
        "words.csv, row 4, column category: category without a template in templates.csv: 'jobs'"
        " (accepted: did you mean 'job'?)",
        "words.csv, row 7, column category: category without a template in templates.csv: 'all'"
        " (accepted: known: job, place)",
    ]


def test_mistakes_in_templates_are_all_reported(write: Callable[..., Path]) -> None:
    words = write("words.csv", "category,word", "job,cook")
    write(
        "templates.csv",
        "category,template",
        "job,a [wrod] at work",
        "place,nothing to fill in",
        "trait,a/an very [word] person",
        "job,[word]",
        "object,{word} and [word]",
    )
    assert mistakes(words) == [
        "templates.csv, row 5, column category: duplicate category: 'job' (accepted: each once; row 2 has it)",
        "templates.csv, row 2, column template: unknown placeholder: '[wrod]' (accepted: [word])",
        "templates.csv, row 3, column template: 0 placeholders: 'nothing to fill in'"
        " (accepted: [word] exactly once)",
        "templates.csv, row 4, column template: a/an that stands before no placeholder:"
        " 'a/an very [word] person' (accepted: a/an [word])",
        "templates.csv, row 6, column template: unknown placeholder: '{word}' (accepted: [word])",
    ]


def test_missing_files_and_columns(write: Callable[..., Path]) -> None:
    words = write("words.csv", "category,words", "job,cook")
    found = mistakes(words)
    assert found[0] == "templates.csv: the file is missing (accepted: columns category and template)"
    assert found[1].startswith("words.csv, row 1, column word: the column is missing; did you mean 'word'?")
    assert mistakes(write("words.tsv", "category,word"), templates=write("t.csv", *TEMPLATES)) == [
        "words.tsv: neither CSV nor Parquet (accepted: .csv or .parquet)"
    ]


HEADER = "\t".join(["prompt_id", "target_ethical_concerns", "template", "ethical_concern", "dimension"])
INPUT = {
    "dimensions": [{"type": "job", "values": ["actor", "cook"]}],
    "ethical_concerns": [
        {"ethical_concern": "gender", "markup": "GENDER", "sensitive_communities": ["man", "woman"]}
    ],
}


def test_imagebite_fills_all_combinations(write: Callable[..., Path]) -> None:
    templates = write(
        "templates.csv",
        HEADER,
        "1\tage\tA {DIMENSION}, an {GENDER}.\tgender\tjob",
        "2\tage;gender\tA person.",  # the row ends early, as in the original file
        "3\tgender\tA {AGE} {DIMENSION}.\tage\tjob",
    )
    made = read_prompts(templates, input_file=write("input.json", json.dumps(INPUT)))
    assert made.table()[list(PROMPT_COLUMNS)].to_numpy().tolist() == [
        ["actor_man", "gender_job", "actor, man", "An actor, a man."],
        ["actor_woman", "gender_job", "actor, woman", "An actor, a woman."],
        ["cook_man", "gender_job", "cook, man", "A cook, a man."],
        ["cook_woman", "gender_job", "cook, woman", "A cook, a woman."],
        ["a_person", "plain", "A person", "A person."],
    ]
    assert made.notes == ("1 template left out: input.json lists no communities for age.",)
    assert list(made.restricted(concern="gender").prompts) == ["a_person"]


def test_mistakes_in_imagebite_templates_are_all_reported(write: Callable[..., Path]) -> None:
    templates = write(
        "templates.csv",
        HEADER,
        "1\tage\tA {GENDR}.\tgender",
        "2\tage\tA {DIMENSION}.\t\tjobs",
        "2\tage\tA {DIMENSION}.",
        "4\tage\tA {DIMENSION.\t",
        "5\tage\t",
        "6\tage\tSomebody.\t\tjob",
        "7\tage\tNobody.\t\t\t\tmore",
    )
    place = "templates.csv, row"
    assert mistakes(templates, input_file=write("input.json", json.dumps(INPUT))) == [
        f"{place} 8: row has 7 cells (accepted: at most 5, as in the header)",
        f"{place} 6, column template: empty text: '' (accepted: some text)",
        f"{place} 4, column prompt_id: duplicate prompt_id: '2' (accepted: each once; row 3 has it)",
        f"{place} 2, column template: unknown placeholder: '{{GENDR}}' (accepted: {{DIMENSION}}, {{GENDER}})",
        f"{place} 2, column ethical_concern: the template does not have this concern's placeholder: 'gender'"
        " (accepted: {GENDER} in it)",
        f"{place} 3, column dimension: dimension without values in input.json: 'jobs'"
        " (accepted: did you mean 'job'?)",
        f"{place} 4, column dimension: a dimension and {{DIMENSION}} in the template go together: ''"
        " (accepted: both or neither; the template is 'A {DIMENSION}.')",
        f"{place} 5, column template: brace without its partner: 'A {{DIMENSION.' (accepted: {{NAME}})",
        f"{place} 7, column dimension: a dimension and {{DIMENSION}} in the template go together: 'job'"
        " (accepted: both or neither; the template is 'Somebody.')",
    ]


def test_mistakes_in_an_imagebite_input_are_all_reported(write: Callable[..., Path]) -> None:
    templates = write("templates.csv", HEADER, "1\tage\tA {DIMENSION}.\t\tjob")
    content = {
        "dimensions": [{"type": "job", "values": []}, {"type": "job", "values": ["cook", "Cook", " "]}],
        "ethical_concerns": [
            {"ethical_concern": "age", "markup": "DIMENSION", "sensitive_communities": ["young\n"]}
        ],
    }
    assert mistakes(templates, input_file=write("input.json", json.dumps(content))) == [
        "input.json, column dimensions[0].values: no values: 'job' (accepted: at least one)",
        "input.json, column dimensions[1].values[2]: empty text: ' ' (accepted: some text)",
        "input.json, column dimensions[1].values[1]: duplicate value: 'Cook'"
        " (accepted: each once; dimensions[1].values[0] has it)",
        "input.json, column ethical_concerns[0].sensitive_communities[0]: control character U+000A: 'young\\n'"
        " (accepted: text without line breaks, tabs, NUL, or marks that turn the direction of writing)",
        "input.json, column ethical_concerns[0].markup: reserved name: 'DIMENSION'"
        " (accepted: none of all, DIMENSION)",
        "input.json, column dimensions[1].type: duplicate name: 'job'"
        " (accepted: each once; dimensions[0].type has it)",
    ]
    wrong = write("wrong.json", '{"dimensions": [{"type": "job", "values": "cook"}]}')
    with pytest.raises(ConfigError, match=r"wrong\.json: dimensions\.0\.values: .*list.*'cook'"):
        read_prompts(templates, input_file=wrong)


def test_imagebite_files_that_cannot_be_used(write: Callable[..., Path]) -> None:
    good = write("input.json", json.dumps(INPUT))
    templates = write("templates.csv", HEADER, "1\tgender\tA {AGE} person.\tage")
    with pytest.raises(ConfigError, match="--input must name the JSON file"):
        read_prompts(templates)
    assert mistakes(templates, input_file=good) == [
        "templates.csv: every template is for an ethical concern that input.json does not list"
        " (accepted: communities for one of them)"
    ]
    assert mistakes(write("short.csv", "prompt_id\ttemplate"), input_file=good)[0].startswith(
        "short.csv, row 1, column target_ethical_concerns: the column is missing: 'prompt_id template'"
    )
    assert mistakes(write("empty.csv", HEADER), input_file=good) == [
        "empty.csv: the file has no records (accepted: at least one row below the header)"
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "row 2: cannot be read as JSON (Expecting property name enclosed in double quotes)"),
        ("[1]", "the file holds no object: 'list' (accepted: an object { ... })"),
        ("{}", "no prompts: '{}' (accepted: prompts as keys)"),
        ('{"a nurse": 5}', "column a nurse: prompt without reference shares: 'int' (accepted: shares by gender,"),
        ('{"a nurse": {"hair": {}}}', "column a nurse: prompt without reference shares: 'hair'"),
        ('{"a nurse": {"gender": {}}, "a nurse": {"age": {}}}', "column a nurse: duplicate key: 'a nurse'"),
        ('{" ": {"gender": {}}}', "empty text: ' '"),
    ],
)
def test_mistakes_in_bigbench_references(write: Callable[..., Path], content: str, expected: str) -> None:
    found = mistakes(write("references.json", content))
    assert len(found) == 1
    assert expected in found[0]


def test_options_that_do_not_go_together(write: Callable[..., Path]) -> None:
    references, good = write("references.json", json.dumps({"x": ONE_PERSON})), write("i.json", json.dumps(INPUT))
    for source, options, message in [
        ("lyu2025", {"input_file": good}, "--input does not go with a list of words"),
        ("imagebite", {"words": good}, "--words does not go with ImageBiTe's templates"),
        (references, {"templates": good}, "--templates does not go with BIGbench's reference shares"),
        ("lyu2024", {}, "neither a file nor a built-in prompt list: did you mean 'lyu2025'"),
        (good, {}, "is an ImageBiTe input: it goes to --input"),
    ]:
        with pytest.raises(ConfigError, match=message):
            read_prompts(source, **options)
    with pytest.raises(ConfigError, match="no category 'profesion' in lyu2025: did you mean 'profession'"):
        read_prompts("lyu2025").restricted(categories=["profesion"])
    with pytest.raises(ConfigError, match="no prompt of lyu2025 is about 'gender'"):
        read_prompts("lyu2025").restricted(concern="gender")
    with pytest.raises(ConfigError, match="no prompt of imagebite is of gender and about 'gender'"):
        read_prompts("imagebite").restricted(categories=["gender"], concern="gender")


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("in soft light", ["a cook in soft light", "A cook in soft light"]),
        (", keep the age", ["a cook, keep the age", "A cook, keep the age"]),
        (KEEP_ATTRIBUTES, [f"a cook. {KEEP_ATTRIBUTES}", f"A cook. {KEEP_ATTRIBUTES}"]),
    ],
)
def test_suffix(write: Callable[..., Path], suffix: str, expected: list[str]) -> None:
    words = write("words.csv", "category,word", "job,a cook", "end,A cook")
    plain = read_prompts(words, templates=write("templates.csv", "category,template", "job,[word]", "end,[word]."))
    made = plain.with_suffix(suffix)
    assert [prompt.text for prompt in made.prompts.values()] == expected
    assert list(made.prompts) == list(plain.prompts)


@pytest.mark.parametrize("suffix", ["", "  ", "two\nlines"])
def test_suffix_that_is_no_line(suffix: str) -> None:
    with pytest.raises(ConfigError, match="one line of text"):
        read_prompts("lyu2025").with_suffix(suffix)


def invoke(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_command_writes_a_table_that_an_image_set_takes(tmp_path: Path) -> None:
    result = invoke("imagebite", "--out", tmp_path / "set" / "prompts.csv")
    assert result.exit_code == 0, result.output
    assert "imagebite: 859 prompts" in result.output
    assert "gender_socio-economic      18" in result.output
    (tmp_path / "set" / "images.csv").write_text(
        "image_id,path,t2i_model,prompt_id\nx,x.png,sdxl,young_repairing_a_bicycle\n"
    )
    loaded = ImageSet.load(tmp_path / "set", require_labels=False)
    assert len(loaded.prompts) == 859
    assert loaded.prompts["prompt_id"].is_unique


def test_command_replaces_nothing_unless_asked(tmp_path: Path) -> None:
    out = tmp_path / "prompts.csv"
    out.write_text("mine")
    result = invoke("lyu2025", "--out", out)
    assert isinstance(result.exception, ConfigError)
    assert "--overwrite" in str(result.exception)
    assert out.read_text() == "mine"
    assert invoke("lyu2025", "--out", tmp_path, "--overwrite").exception is None
    assert out.read_text().startswith("prompt_id,category,word,prompt"), "a folder gets a prompts.csv"
    assert invoke("lyu2025", "--out", out, "--overwrite").exit_code == 0
    assert out.read_bytes() == resource("labels/lyu2025/prompts.csv").read_bytes()


def test_command_shows_first_rows_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("biaspainter", "--category", "profession", "--keep-attributes", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "biaspainter: 62 prompts" in result.output
    assert "a person who is an artist." in " ".join(result.output.split())
    assert "... and 52 more; nothing was written" in result.output
    assert list(tmp_path.iterdir()) == []
    both = invoke("biaspainter", "--keep-attributes", "--suffix", "x")
    assert "not both" in str(both.exception)


def test_command_lists_what_is_built_in() -> None:
    result = invoke("--list")
    assert result.exit_code == 0
    assert all(name in result.output for name in builtin_lists())
    assert "name a SOURCE" in str(invoke().exception)


def test_lists_are_joined(write: Callable[..., Path], tmp_path: Path) -> None:
    one = write("one.json", json.dumps({"a photo of one Nurse": ONE_PERSON}))
    two = write("two.json", json.dumps({"a photo of a brave person": ONE_PERSON, "two": {"left": ONE_PERSON}}))
    result = invoke(one, two, "lyu2025", "--out", tmp_path / "prompts.csv")
    assert result.exit_code == 0, result.output
    assert "one.json, two.json, lyu2025: 103 prompts" in result.output
    assert "1 prompt asks for two people" in result.output
    made = pd.read_csv(tmp_path / "prompts.csv", index_col="prompt_id")
    assert made.loc["nurse", "prompt"] == "a photo of one Nurse"
    assert made.loc["nurse_2", "prompt"] == "a photo of one real person who is a nurse"
    with pytest.raises(ConfigError, match=r"one\.json stands there twice"):
        read_prompts(one, two, one)


def test_command_takes_words_and_templates_without_source(write: Callable[..., Path], tmp_path: Path) -> None:
    words = write("my_words.csv", "category,word", "job,actor")
    templates = write("my_templates.csv", *TEMPLATES)
    out = tmp_path / "prompts.csv"
    result = invoke("--words", words, "--templates", templates, "--out", out, "--suffix", "at night")
    assert result.exit_code == 0, result.output
    assert out.read_text() == "prompt_id,category,word,prompt\nactor,job,actor,an actor at work at night\n"


@pytest.mark.parametrize(
    "prompt",
    [
        "a photo of one \U0001f469\u200d\U0001f680",
        "\u06cc\u06a9 \u0639\u06a9\u0633 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u533b\u8005\u3000\u306e\u5199\u771f",
        "a photo of\u00a0one nurse",
    ],
)
def test_letters_that_are_joined_and_blanks_of_other_scripts_are_text(tmp_path: Path, prompt: str) -> None:
    (tmp_path / "prompts.csv").write_text(f"category,word,prompt\nwork,one,{prompt}\n", encoding="utf-8")
    assert [each.text for each in read_prompts(tmp_path / "prompts.csv").prompts.values()] == [prompt]


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u2028", "\x7f"])
def test_what_shows_another_sentence_than_is_sent_is_named(tmp_path: Path, sign: str) -> None:
    (tmp_path / "prompts.csv").write_text(f"category,word,prompt\nwork,one,a{sign}photo\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"row 2, column prompt: control character U\\+{ord(sign):04X}: "):
        read_prompts(tmp_path / "prompts.csv")
