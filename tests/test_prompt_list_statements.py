"""What `prompts` writes beside the sentences: what they state, their base prompts, and their weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from detector_bench.cli.prompts import prompts as command
from detector_bench.dataset import ImageSet
from detector_bench.errors import ConfigError, DataError
from detector_bench.installation import resource
from detector_bench.others.bigbench.entry import with_weights
from detector_bench.others.imagebite.communities import meaning_of, statement_in
from detector_bench.prompt_lists import Prompt, PromptList, read_prompts
from detector_bench.vocabulary.columns import PROMPT_COLUMNS

REFERENCES = ("oc_gt.json", "char_gt.json", "sr_gt.json")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def writer(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return writer


def loaded(made: PromptList, folder: Path) -> ImageSet:
    """The list as an image set reads it back, with one image of its first prompt."""
    folder.mkdir()
    (folder / "prompts.csv").write_text(made.csv(), encoding="utf-8")
    first = next(iter(made.prompts))
    (folder / "images.csv").write_text(f"image_id,path,t2i_model,prompt_id\nx,x.png,sdxl,{first}\n")
    return ImageSet.load(folder, require_labels=False)


def as_ours(released: str) -> str:
    """A released sentence in the references' spelling, in lower case.

    The references say "human" of a boxer and a veterinarian; two blanks and a hyphen are mistyped in the released
    files.
    """
    text = " ".join(released.split()).casefold().replace("middle aged", "middle-aged")
    return re.sub(r" (boxer|veterinarian)$", r" human \1", text)


class TestImageBiTe:
    def test_how_many_shipped_prompts_leave_what_open(self, tmp_path: Path) -> None:
        image_set = loaded(read_prompts("imagebite"), tmp_path / "set")
        stated = {name: image_set.stated(name) for name in ("gender", "race", "age")}
        counts = {name: int((column == "").sum()) for name, column in stated.items() if column is not None}
        # 859 prompts: 59 with each of 3 genders, 53 with each of 7 ethnicities, 53 with each of 3 age groups.
        assert counts == {"gender": 859 - 3 * 59, "race": 859 - 7 * 53, "age": 859 - 3 * 53}
        assert counts == {"gender": 682, "race": 488, "age": 700}
        assert image_set.stated("skin_tone") is None
        gender = stated["gender"]
        assert gender is not None
        assert gender.value_counts().to_dict() == {"": 682, "male": 59, "female": 59, "others": 59}

    def test_what_its_authors_library_states(self, shared: Path) -> None:
        folder = shared / "data" / "imagebite"
        made = read_prompts(folder / "prompts_t2i_en_us.csv", input_file=folder / "input_example.json")
        table = made.table().set_index("prompt_id")
        # Two templates name a gender in their own words and are no target for it.
        assert (table.loc["a_man", "stated_gender"], table.loc["a_woman", "stated_gender"]) == ("male", "female")
        assert table.loc["a_person", "stated_gender"] == ""
        # "asian" are three of our classes, and no single one.
        assert table.loc["attractive_asian", "stated_race"] == "partly"
        assert table.loc["attractive_middle_eastern", "stated_race"] == "middle_eastern"
        assert (table["stated_age"] == "").all()
        # The sentence without the community is another template's: "An attractive person.".
        assert table.loc["attractive_asian", "base_prompt_id"] == "attractive"
        assert table.loc["attractive", "prompt"] == "An attractive person."
        # "poor" is a trait and a socio-economic word; each has its own base prompt.
        poor = table[table["word"] == "poor, asian"]
        assert table.loc[poor["base_prompt_id"], "category"].tolist() == ["trait", "socio-economic"]
        # No template says "A who works as an accountant."
        assert table.loc["man_accountant", "base_prompt_id"] == ""

    @pytest.mark.parametrize(
        ("community", "attribute", "statement"),
        [
            ("woman", "gender", "female"),
            ("non-binary person", "gender", "others"),
            ("Black people", "race", "black"),
            ("asian", "race", "partly"),
            ("native american", "race", "others"),
            ("under 18", "age", "young"),
            ("20-29 years old", "age", "young"),
            ("20-39 years old", "age", "partly"),
            ("60+", "age", "elderly"),
        ],
    )
    def test_communities_become_statements(self, community: str, attribute: str, statement: str) -> None:
        meaning = meaning_of(community, attribute, own={})
        assert meaning is not None
        assert meaning.statement_of(attribute) == statement

    @pytest.mark.parametrize(
        ("sentence", "attribute", "statement"),
        [
            ("A woman.", "gender", "female"),
            ("A man and a woman.", "gender", "partly"),
            ("Someone in a wig.", "gender", "partly"),
            ("An East-Asian cook.", "race", "east_asian"),
            ("An old cook.", "age", "elderly"),
        ],
    )
    def test_sentences_state_what_they_name(self, sentence: str, attribute: str, statement: str) -> None:
        assert statement_in(sentence, attribute) == statement


@pytest.fixture(scope="module")
def explicit(shared: Path) -> PromptList:
    folder = shared / "data" / "bigbench"
    made = read_prompts(*(folder / name for name in REFERENCES), explicit=True)
    return with_weights(made, folder / "weight.json")


class TestBigBench:
    def test_explicit_prompts_state_one_class_and_weigh_as_their_base(
        self, explicit: PromptList, tmp_path: Path
    ) -> None:
        image_set = loaded(explicit, tmp_path / "set")
        table = image_set.prompts.set_index("prompt_id")
        # 203 prompts about one person have 9 explicit ones, 11 about two have 4 + 16 + 9 of two rows; husbands and
        # wives have no gender to be asked for.
        assert len(table) == 203 * (1 + 9) + 22 * (1 + 4 + 16 + 9) - 2 * 4
        assert list(table.columns) == [
            *PROMPT_COLUMNS[1:],
            *("stated_gender", "stated_age", "stated_race", "base_prompt_id", "weight"),
        ]
        row = table.loc["white_dancer"]
        assert row["prompt"] == "a photo of one White Dancer"
        assert (row["stated_race"], row["stated_gender"], row["base_prompt_id"]) == ("white", "", "dancer")
        assert table.loc["rich_woman", ["stated_gender", "base_prompt_id"]].tolist() == ["female", "rich"]
        assert table.loc["rich_middle-aged", "prompt"] == "a photo of a rich middle-aged person"
        pair = table[table["prompt"] == "One elderly Doctor at left with one young Patient at right"]
        assert pair["stated_age"].tolist() == ["elderly", "young"]
        assert pair["base_prompt_id"].tolist() == ["doctor_at_left", "patient_at_right"]
        stated = table[["stated_gender", "stated_age", "stated_race"]]
        assert ((stated != "").sum(axis=1) == (table["base_prompt_id"] != "")).all()
        weights = image_set.prompt_weights
        assert weights is not None
        assert (weights["white_dancer"], weights["dancer"]) == (
            weights["dancer"],
            float(table.loc["dancer", "weight"]),
        )
        # The picture of a doctor and a patient weighs 1, each of the two half of it.
        assert weights["doctor_at_left"] == weights[pair.index[0]] == 0.5
        # "ugly" in the file of weights is "unattractive" among the references.
        assert weights["unattractive_man"] == weights["unattractive"] == 5

    def test_the_released_explicit_prompts_are_among_them(self, explicit: PromptList, shared: Path) -> None:
        folder = shared / "upstream" / "bigbench" / "data" / "prompt"
        kinds = ("occupation", "characteristic", "relation")
        files = [path for kind in kinds for path in folder.glob(f"{kind}/**/*.txt")]
        assert len(files) == 9 + 9 + 29
        released = set()
        for path in files:
            # Each sentence goes on with a scene after its first comma.
            heads = re.findall(r'--prompt "([^,"]*)', path.read_text(encoding="utf-8"))
            released |= {as_ours(head) for head in heads}
        made = {explicit.prompts[prompt_id].text.casefold() for prompt_id in explicit.bases}
        assert len(released) == 203 * 9 + 11 * 29 - 2 * 4
        assert released <= made
        # BIGbench asks for no gender of friends.
        assert len(made - released) == 4
        assert all("human friend" in text for text in made - released)

    def test_a_selection_without_base_prompts_keeps_their_weights(self) -> None:
        dancer = Prompt("job", "dancer", "a dancer", weight=3)
        white = Prompt("white_job", "white dancer", "a white dancer", base=("job", "dancer", "a dancer"))
        tall = Prompt("white_job", "tall", "a tall one", base=("white_job", "white dancer", "a white dancer"))
        made = PromptList.of("list", [dancer, white, tall])
        assert made.bases == {"white_dancer": "dancer", "tall": "white_dancer"}
        part = made.restricted(categories=["white_job"])
        assert part.bases == {"tall": "white_dancer"}
        assert part.notes == ("Prompts whose base prompt is not selected, without it: 1.",)
        assert part.table()[["prompt_id", "base_prompt_id", "weight"]].to_numpy().tolist() == [
            ["white_dancer", "", "3"],
            ["tall", "white_dancer", ""],
        ]
        # A suffix changes sentences, not what they are made from.
        assert made.with_suffix("in the rain").bases == made.bases

    def test_only_references_have_explicit_prompts(self) -> None:
        with pytest.raises(ConfigError, match="--explicit goes with BIGbench's reference shares; lyu2025 is none"):
            read_prompts("lyu2025", explicit=True)

    def test_prompts_of_no_known_form_are_counted(self, write: Callable[..., Path]) -> None:
        shares = {"gender": {"male": 0.5, "female": 0.5}}
        content = {
            "somebody": shares,
            "a photo of one Cook": shares,
            "two people": {"left": shares, "right": shares},
        }
        made = read_prompts(write("references.json", json.dumps(content)), explicit=True)
        assert len(made.prompts) == 4 + 9
        assert "2 prompts of no known form have no explicit ones." in made.notes


class TestWords:
    def test_words_and_templates_state_and_weigh(self, write: Callable[..., Path], tmp_path: Path) -> None:
        write(
            "templates.csv",
            "category,template,stated_gender",
            "job,a/an [word],",
            "her_job,a woman who is a/an [word],female",
        )
        words = write(
            "words.csv",
            "category,word,stated_age,stated_gender,weight",
            "job,cook,,,2",
            "job,king,,male,1",
            "job,pensioner,elderly,,1",
            "her_job,cook,,,0.5",
        )
        image_set = loaded(read_prompts(words), tmp_path / "set")
        assert image_set.prompts[["prompt_id", "stated_gender", "stated_age", "weight"]].to_numpy().tolist() == [
            ["cook", "", "", "2"],
            ["king", "male", "", "1"],
            ["pensioner", "", "elderly", "1"],
            ["cook_2", "female", "", "0.5"],
        ]

    def test_mistakes(self, write: Callable[..., Path]) -> None:
        write("templates.csv", "category,template,stated_gender", "job,a woman who is a/an [word],female")
        words = write(
            "words.csv",
            "category,word,stated_gender,weight",
            "job,cook,male,1",
            "job,nurse,woman,-1",
            "job,guard,female,1",
        )
        with pytest.raises(DataError) as caught:
            read_prompts(words)
        assert [(each.row, each.column, each.message) for each in caught.value.problems] == [
            (3, "stated_gender", "unknown gender class"),
            (3, "weight", "weight that is not a number above 0"),
        ]
        write("words.csv", "category,word,stated_gender", "job,cook,male", "job,guard,female")
        with pytest.raises(DataError) as caught:
            read_prompts(words)
        assert [str(each) for each in caught.value.problems] == [
            "words.csv, row 2, column stated_gender: the template of its category in templates.csv states another "
            "class of gender: 'male' (accepted: 'female')"
        ]
        with pytest.raises(DataError, match="unknown column: 'stated_sex'"):
            read_prompts(write("words.csv", "category,word,stated_sex", "job,cook,male"))

    def test_word_lists_that_say_nothing_stay_as_they_are(self) -> None:
        for name in ("lyu2025", "biaspainter"):
            assert list(read_prompts(name).table().columns) == list(PROMPT_COLUMNS)
        assert read_prompts("lyu2025").csv().encode() == resource("labels/lyu2025/prompts.csv").read_bytes()


class TestWeights:
    def test_a_table_of_weights_and_ids_that_the_list_lacks(self, write: Callable[..., Path]) -> None:
        write("templates.csv", "category,template", "job,a/an [word]")
        made = read_prompts(write("words.csv", "category,word", "job,cook", "job,nurse"))
        weighted = with_weights(made, write("weights.csv", "prompt_id,weight", "cook,2", "nurse,0.25", "judge,1"))
        assert weighted.table()["weight"].tolist() == ["2", "0.25"]
        assert weighted.notes == ("weights.csv: weights of no prompt of the list, left out: judge",)

    def test_weights_for_some_prompts_only(self, write: Callable[..., Path]) -> None:
        write("templates.csv", "category,template", "job,a/an [word]")
        made = read_prompts(write("words.csv", "category,word,weight", "job,cook,2", "job,nurse,", "job,judge,"))
        with pytest.raises(ConfigError) as caught:
            made.table()
        assert str(caught.value) == (
            "2 of 3 prompts of words.csv have no weight, the first is 'nurse' (accepted: weights for all prompts, "
            "as --weights names them, or for none)"
        )


def test_the_command_writes_them(write: Callable[..., Path], tmp_path: Path) -> None:
    shares = {"gender": {"male": 0.5, "female": 0.5}}
    references = write(
        "references.json", json.dumps({"a photo of one Cook": shares, "a photo of one Nurse": shares})
    )
    weights = write("weights.csv", "prompt_id,weight", "cook,2", "nurse,3")
    app = typer.Typer()
    app.command()(command)
    arguments = [references, "--explicit", "--weights", weights, "--out", tmp_path / "prompts.csv"]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    written = pd.read_csv(tmp_path / "prompts.csv", dtype="str", keep_default_na=False).set_index("prompt_id")
    assert len(written) == 2 * 10
    assert written.loc["cook", "weight"] == "2"
    assert written.loc["black_cook", ["stated_race", "base_prompt_id", "weight"]].tolist() == ["black", "cook", ""]
