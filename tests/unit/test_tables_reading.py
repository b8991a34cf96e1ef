"""Files: what is read, and what is said about a file that cannot be."""

import contextlib
import warnings

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.errors import DataWarning, InputError
from mercer.tables import Encoding, read_table


@pytest.fixture
def written(tmp_path):
    """Write text or bytes to a file, return its path."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_are_detected(written, delimiter):
    lines = ["month,passengers", "1949-01,112", "1949-02,118"]
    table = read_table(written("\n".join(line.replace(",", delimiter) for line in lines)))
    assert list(table.columns) == ["month", "passengers"]
    assert table["passengers"].tolist() == [112, 118]


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.txt", "a.tsv"])
def test_text_extensions(written, name):
    assert read_table(str(written("a,b\n1,2\n", name))).shape == (1, 2)


@pytest.mark.parametrize(
    "content",
    [
        "größe,wert\n1,2\n".encode("utf-8-sig"),
        "größe,wert\n1,2\n".encode(),
        "größe,wert\n1,2\n".encode("latin-1"),
        "größe,wert\n1,2\n".encode("utf-16"),
    ],
)
def test_character_encodings(written, content):
    assert list(read_table(written(content)).columns) == ["größe", "wert"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_and_blank_lines(written, line_end):
    table = read_table(written(line_end.join(["", "a,b", "1,2", "", "3,4", "", ""])))
    assert table.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_names_are_stripped_and_spaces_after_a_delimiter_ignored(written):
    table = read_table(written(' a , "b, c" ,d\n1, "x, y" , 3\n'))
    assert list(table.columns) == ["a", "b, c", "d"]
    assert table["b, c"].str.strip().tolist() == ["x, y"]


def test_one_column(written):
    assert read_table(written("passengers\n112\n118\n"))["passengers"].tolist() == [112, 118]


def test_numbers_are_read_to_the_last_digit(written):
    assert read_table(written("a\n0.1234567890123456789\n"))["a"][0] == pytest.approx(0.1234567890123456789, rel=1e-15)


def test_a_comma_in_a_name_does_not_hide_the_semicolons(written):
    with pytest.warns(DataWarning, match=r"decimal commas .* 'price, EUR'"):
        table = read_table(written("price, EUR;volume\n1,5;3\n-1.234,25;4\n"))
    assert table["price, EUR"].tolist() == [1.5, -1234.25]
    assert table["volume"].tolist() == [3, 4]


def test_texts_with_commas_in_a_semicolon_file_stay_texts(written):
    table = read_table(written("place;x\nParis, France;1\n3,5;2\n"))
    assert table["place"].tolist() == ["Paris, France", "3,5"]


def test_bare_separators_at_the_end_are_dropped(written):
    table = read_table(written("a,b,\n1,2,\n3,4,\n,,\n,,\n"))
    assert list(table.columns) == ["a", "b"]
    assert len(table) == 2


def test_an_empty_row_inside_is_kept_so_that_row_numbers_hold(written):
    assert len(read_table(written("a,b\n1,2\n,\n3,4\n"))) == 3


@pytest.mark.parametrize("start", [0, 1])
def test_saved_row_numbers_are_left_out(written, start):
    with pytest.warns(DataWarning, match="row numbers"):
        table = read_table(written(f",x,y\n{start},5,6\n{start + 1},7,8\n"))
    assert list(table.columns) == ["x", "y"]


def test_other_unnamed_columns_get_a_name(written):
    with pytest.warns(DataWarning, match="called 'column 2'"):
        table = read_table(written("x,\n1,5\n2,9\n"))
    assert list(table.columns) == ["x", "column 2"]


def test_a_first_line_of_numbers_is_questioned(written):
    with pytest.warns(DataWarning, match="add a line of column names"):
        read_table(written("1.5,112\n2.5,118\n"))


def test_column_names_that_count_up_are_not_questioned(written):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(written("0,1\n2.5,118\n"))


def test_a_field_beyond_all_measure(written):
    with pytest.raises(InputError, match=r"after line 1.*quotation mark"):
        read_table(written('a,b\n1,"' + 200_000 * "x"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty"]),
        (" \n\n", ["empty"]),
        ("a,b\n", ["'a', 'b'", "no rows"]),
        ("a,b\n,\n", ["no rows"]),
        ("a,b, a\n1,2,3\n", ["'a'", "line 1", "rename"]),
        ("a,b\n1,2\n1,2,3\n", ["line 3", "3 fields", "has 2", "comma"]),
        ("a,b\n1,2\n\n\n7\n", ["line 5", "1 field "]),
        ('a;b\n"x\ny";2\n1;2;3\n', ["line 4", "semicolon"]),
        ('a,b\n1,2\n"x,3\n4,5\n', ["line 3", "quotation mark"]),
        ('a,b\n1,2\n3,"x\n', ["quotation mark"]),
        ('"', ["empty"]),
        (b"a,b\n1,\x002\n", ["zero byte", "position 6"]),
        (b"PK\x03\x04\x00", ["Excel", "CSV"]),
        (b"\x1f\x8b\x08", ["gzip"]),
    ],
)
def test_bad_text_files(written, content, words):
    path = written(content)
    with pytest.raises(InputError) as caught:
        read_table(path)
    for word in ["table.csv", *words]:
        assert word in str(caught.value)


def test_a_file_that_does_not_exist_suggests_a_neighbour(written):
    path = written("a\n1\n", "passengers.csv")
    with pytest.raises(InputError, match=r"no file .*pasengers\.csv.* Did you mean 'passengers\.csv'"):
        read_table(path.with_name("pasengers.csv"))


def test_a_folder(tmp_path):
    with pytest.raises(InputError, match="folder"):
        read_table(tmp_path)


@pytest.mark.parametrize("name", ["a", "a.json"])
def test_unknown_extension_names_the_known_ones(written, name):
    with pytest.raises(InputError, match=r"\.csv, \.tsv, \.txt, \.dat, \.xlsx, \.xlsm, \.parquet"):
        read_table(written("a\n1\n", name))


def test_parquet(tmp_path):
    frame = pd.DataFrame({" x ": [1.5, 2.5], "when": pd.date_range("2020-01-01", periods=2), "place": ["a", "b"]})
    frame.to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert list(table.columns) == ["x", "when", "place"]
    assert table["x"].tolist() == [1.5, 2.5]
    assert Encoding.learn(table).apply(table).tolist() == [[1.5, 0, 0], [2.5, 1, 1]]


def test_parquet_keeps_an_index_that_is_data(tmp_path):
    months = pd.date_range("1949-01-01", periods=3, freq="MS", name="month")
    pd.DataFrame({"y": [1, 2, 3]}, index=months).to_parquet(tmp_path / "dated.parquet")
    assert list(read_table(tmp_path / "dated.parquet").columns) == ["month", "y"]
    pd.DataFrame({"y": [1, 2, 3]}, index=[5, 7, 9]).to_parquet(tmp_path / "numbered.parquet")
    assert list(read_table(tmp_path / "numbered.parquet").columns) == ["y"]


def test_bad_parquet_files(written, tmp_path):
    pd.DataFrame({"x": [1.5, 2.5]}).to_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2], whole[:4] + whole[50:]):
        with pytest.raises(InputError, match=r"a\.parquet"):
            read_table(written(content, "a.parquet"))
    pd.DataFrame({"x": pd.Series([], dtype=float)}).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"'x'.*no rows"):
        read_table(tmp_path / "none.parquet")
    twice = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x "])
    pyarrow.parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="more than one column named 'x'"):
        read_table(tmp_path / "twice.parquet")


@settings(max_examples=150, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), st.text("ab1,;\t\"\n\r. '-", max_size=60).map(str.encode)))
def test_any_bytes_give_a_table_or_an_input_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "any.csv"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            table = read_table(path)
        except InputError:
            return
    assert len(table) >= 1
    assert table.columns.is_unique


@settings(max_examples=100, deadline=None)
@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_damaged_parquet_byte_gives_a_table_or_an_input_error(tmp_path_factory, position, value):
    path = tmp_path_factory.mktemp("damaged") / "damaged.parquet"
    pd.DataFrame({"x": [1.5, 2.5], "place": ["a", "b"]}).to_parquet(path)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = value
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        read_table(path)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False), st.text("abc,;\"' \n", min_size=1).map(lambda t: f"q{t}q")
        ),
        min_size=1,
        max_size=8,
    ),
    delimiter=st.sampled_from(",;\t"),
)
def test_what_pandas_writes_is_read_back(tmp_path_factory, rows, delimiter):
    frame = pd.DataFrame(rows, columns=["x", "place"])
    path = tmp_path_factory.mktemp("written") / "written.csv"
    frame.to_csv(path, sep=delimiter, index=False)
    pd.testing.assert_frame_equal(read_table(path), frame, check_dtype=False, rtol=1e-15, atol=0)


def test_a_blank_line_in_a_table_of_one_column_is_told(written):
    with pytest.warns(DataWarning, match=r"1 blank line \(the first is line 3\) was skipped.*\"\" or NA"):
        assert read_table(written("x\n1\n\n2\n\n")).x.tolist() == [1, 2]
    with pytest.warns(DataWarning, match=r"2 blank lines \(the first is line 4\) were skipped"):
        assert len(read_table(written("\nx\r\n1\r\n  \r\n\r\n2\r\n"))) == 2


@pytest.mark.parametrize(
    "text", ["x\n1\n2\n\n\n", "\nx\n1\n2\n", 'x\n1\n""\n2\n', "x,y\n1,2\n\n3,4\n", 'x\n"a\n\nb"\nc\n']
)
def test_blank_lines_that_mean_nothing_are_not_told(written, text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(written(text))


def test_a_column_called_year_holds_years_of_four_digits(written):
    named = read_table(written("year,width\n" + "".join(f"{year},1.5\n" for year in range(1042, 2342, 100))))
    assert str(named["year"].iloc[0])[:10] == "1042-01-01"
    other = read_table(written("part,width\n" + "".join(f"{number},1.5\n" for number in range(1042, 2342, 100))))
    assert other["part"].tolist()[0] == 1042
