"""Prompts from BIGbench's own files, from prompt tables, and from plain lists of sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from detector_bench.errors import ConfigError, DataError
from detector_bench.others.bigbench.sentences import read_sentence
from detector_bench.prompt_lists import PromptList, read_prompts, with_weights
from detector_bench.prompt_lists.prompt_tables import wordings_file

REFERENCES = ("oc_gt.json", "char_gt.json", "sr_gt.json")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def writer(name: str, *lines: str, end: str = "\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + end, encoding="utf-8")
        return path

    return writer


@pytest.fixture(scope="module")
def released(shared: Path) -> PromptList:
    folder = shared / "upstream" / "bigbench"
    if not (folder / "data" / "prompt").is_dir():
        pytest.skip("BIGbench's prompts are not here")
    return read_prompts(folder)


class TestReleasedPrompts:
    @pytest.mark.slow
    def test_all_47040_lines_are_there(self, released: PromptList) -> None:
        sentences = {prompt.text: prompt for prompt in released.prompts.values()}
        lines = dict.fromkeys(released.counts(), 0)
        for prompt in sentences.values():
            lines[prompt.category] += len(set(prompt.wordings))
        assert lines == {"occupation": 35_800, "characteristic": 4_800, "social_relation": 6_440}
        assert sum(lines.values()) == 47_040
        assert len(sentences) == 214 + 203 * 9 + 11 * 29 - 2 * 4
        assert {len(prompt.wordings) for prompt in sentences.values()} == {20}
        dancer = released.prompts["dancer"]
        assert dancer.text == "a photo of one Dancer"
        assert all(wording.startswith("a photo of one Dancer, ") for wording in dancer.wordings)
        assert len(released.bases) == len(released.prompts) - 203 - 2 * 11

    def test_they_are_those_that_references_make_with_the_same_ids(
        self, released: PromptList, shared: Path
    ) -> None:
        folder = shared / "data" / "bigbench"
        made = with_weights(
            read_prompts(*(folder / name for name in REFERENCES), explicit=True), folder / "weight.json"
        )
        weighed = with_weights(released, folder / "weight.json")
        # BIGbench asks for no gender of friends.
        lacking = set(made.prompts) - set(weighed.prompts)
        assert len(lacking) == 8
        assert all("male_human_friend" in prompt_id for prompt_id in lacking)
        assert set(weighed.prompts) <= set(made.prompts)
        for prompt_id, prompt in weighed.prompts.items():
            other = made.prompts[prompt_id]
            assert (prompt.category, prompt.stated) == (other.category, other.stated), prompt_id
            assert weighed.bases.get(prompt_id) == made.bases.get(prompt_id), prompt_id
            assert weighed.weight_of(prompt_id) == made.weight_of(prompt_id), prompt_id

    def test_the_table_of_it_is_a_source(self, released: PromptList, tmp_path: Path) -> None:
        file = tmp_path / "mine.csv"
        file.write_text(released.csv(), encoding="utf-8")
        wordings_file(file).write_text(released.wording_table().to_csv(index=False), encoding="utf-8")
        again = read_prompts(file)
        assert again.csv() == released.csv()
        assert again.bases == released.bases
        assert [each.wordings for each in again.prompts.values()] == [
            each.wordings for each in released.prompts.values()
        ]


class TestOwnFiles:
    def test_odd_lines_are_read_and_told(self, write: Callable[..., Path], tmp_path: Path) -> None:
        write("prompt/implicit/oc.txt", '--prompt "a photo of one Cook, at work"', "", end="")
        write(
            "prompt/occupation/oc _female.txt",
            '--prompt "a photo of one  East-Asian Cook, at work"\r',
            "a photo of one female Cook, at home",
            '--prompt "a photo of one female Cook, at home"',
            '--prompt "three cooks, at home"',
            '--prompt "a photo of one old Cook, at home"',
            '--prompt "a photo of one young Pilot"',
            '--prompt "a photo of one East-Asain Cook, at home"',
        )
        made = read_prompts(tmp_path)
        assert list(made.prompts) == [
            "cook",
            "old_cook",
            "east-asain_cook",
            "female_cook",
            "east_asian_cook",
            "young_pilot",
            "three_cooks",
        ]
        asian = made.prompts["east_asian_cook"]
        assert (asian.stated["race"], asian.text) == ("east_asian", "a photo of one East-Asian Cook")
        assert asian.wordings == ("a photo of one  East-Asian Cook, at work",)
        assert made.prompts["young_pilot"].wordings == ()
        assert made.bases == {"female_cook": "cook", "east_asian_cook": "cook"}
        notes = "\n".join(made.notes)
        assert "8 lines in 2 files are 7 prompts with 1 to 2 wordings each" in notes
        assert "1 line of another form, taken as it is: oc _female.txt, row 2: 'a photo of" in notes
        assert "1 line that another one repeats, kept: oc _female.txt, row 3 (as oc _female.txt, row 2)" in notes
        assert "taken to ask for nobody: oc _female.txt, row 4: 'three cooks'" in notes
        assert "1 prompt that may be misspelt, and is taken to ask for nobody: oc _female.txt, row 7" in notes
        assert "1 prompt whose base prompt is not among them: a photo of one young Pilot" in notes

    def test_lines_without_a_sentence_are_refused_with_their_rows(self, write: Callable[..., Path]) -> None:
        path = write("oc.txt", '--prompt "a photo of one Cook, at work"', '--prompt ", at work"', '--prompt ""')
        path.write_bytes(path.read_bytes() + b'--prompt "a photo of one caf\xe9 owner, at work"\n')
        with pytest.raises(DataError) as caught:
            read_prompts(path)
        assert [(problem.file, problem.row) for problem in caught.value.problems] == [
            ("oc.txt", 2),
            ("oc.txt", 3),
            ("oc.txt", 4),
        ]

    def test_weights_beside_the_prompts_are_taken(self, write: Callable[..., Path], tmp_path: Path) -> None:
        write("data/truth/weight.json", '{"a photo of one human Boxer": 3}')
        write(
            "data/prompt/oc.txt", '--prompt "a photo of one Boxer, a"', '--prompt "a photo of one White Boxer, a"'
        )
        made = read_prompts(tmp_path)
        table = made.table().set_index("prompt_id")
        assert table["weight"].to_dict() == {"human_boxer": "3", "white_human_boxer": ""}
        assert read_prompts(tmp_path / "data" / "prompt").weight_of("white_human_boxer") == 3

    def test_explicit_ones_are_among_them(self, write: Callable[..., Path]) -> None:
        path = write("oc.txt", '--prompt "a photo of one Cook, at work"')
        with pytest.raises(ConfigError, match="--explicit goes with BIGbench's reference shares"):
            read_prompts(path, explicit=True)

    def test_a_folder_of_something_else(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no prompts that a benchmark recognises lie in this folder"):
            read_prompts(tmp_path)


@pytest.mark.parametrize(
    ("text", "base", "people"),
    [
        (
            "a photo of one South Asian Film Director, x",
            "a photo of one Film Director",
            [("Film Director", "south_asian", "")],
        ),
        ("a photo of an honest black person", "a photo of an honest person", [("honest", "black", "")]),
        ("a photo of a rich woman", "a photo of a rich person", [("rich", "female", "")]),
        (
            "One middle aged  Doctor at left with another Patient at right",
            "One Doctor at left with another Patient at right",
            [("Doctor", "middle_aged", "left"), ("Patient", "", "right")],
        ),
    ],
)
def test_sentences(text: str, base: str, people: list[tuple[str, str, str]]) -> None:
    found = read_sentence(text)
    assert found.base == base
    assert [(each.name, each.label, each.side) for each in found.people] == people


class TestPromptTables:
    def test_a_table_keeps_its_ids_and_a_list_gets_some(self, write: Callable[..., Path]) -> None:
        table = write(
            "mine.csv",
            "prompt_id,category,word,prompt,stated_gender,base_prompt_id,weight",
            "c1,job,cook,a cook,,,2",
            "her,job,cook,a woman who cooks,female,c1,",
        )
        made = read_prompts(table)
        assert list(made.prompts) == ["c1", "her"]
        assert (made.bases, made.weight_of("her")) == ({"her": "c1"}, 2)
        assert made.csv() == table.read_text()
        plain = read_prompts(write("plain.csv", "prompt", "a cook", '"a cook, tired"', "a cook"))
        assert list(plain.prompts) == ["a_cook", "a_cook_tired", "a_cook_2"]
        assert plain.bases == {}
        assert plain.notes == (
            "plain.csv: prompts that stand there before, each kept as one of its own: row 4 as row 2.",
        )
        assert list(read_prompts(write("plain.txt", "a cook", "", "a king", end="")).prompts) == [
            "a_cook",
            "a_king",
        ]
        both = read_prompts(table, write("more.txt", "her"))
        assert list(both.prompts) == ["c1", "her", "her_2"]

    def test_the_mistakes_of_a_table(self, write: Callable[..., Path]) -> None:
        table = write("t.csv", "prompt_id,prompt", "a/b,one", "c,", "c,two", "d,three")
        write("t_wordings.csv", "prompt_id,number,wording", "e,0,four", "d,1,five")
        with pytest.raises(DataError) as caught:
            read_prompts(table)
        assert [line.strip() for line in str(caught.value).splitlines()[-3:]] == [
            "t.csv, row 2, column prompt_id: id that cannot name a file: 'a/b' (accepted: letters, digits, dots, "
            "hyphens and underscores, such as 'a_b')",
            "t.csv, row 4, column prompt_id: duplicate prompt_id: 'c' (accepted: each once; row 3 has it)",
            "t.csv, row 3, column prompt: empty text: '' (accepted: some text)",
        ]
        table = write("t.csv", "prompt_id,prompt", "d,three")
        with pytest.raises(DataError) as caught:
            read_prompts(table)
        assert [(problem.file, problem.row, problem.column) for problem in caught.value.problems] == [
            ("t_wordings.csv", 2, "prompt_id"),
            ("t_wordings.csv", 3, "number"),
        ]

    def test_an_id_of_two_tables(self, write: Callable[..., Path]) -> None:
        tables = [write(name, "prompt_id,prompt", "c,a cook") for name in ("a.csv", "b.csv")]
        with pytest.raises(ConfigError, match="two prompts have the prompt_id 'c'"):
            read_prompts(*tables)

    def test_a_suffix_is_in_every_wording(self, write: Callable[..., Path]) -> None:
        path = write("oc.txt", '--prompt "a photo of one Cook, at work"')
        cook = read_prompts(path).with_suffix("in the rain").prompts["cook"]
        assert cook.wordings == ("a photo of one Cook, at work in the rain",)
