"""Search and download of files. The tests need no network."""

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harmonium import data, errors
from harmonium.data import locate
from harmonium.data.dataset import DataFile, DatasetInfo

CONTENT = b"some numbers\n" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()
FILE = DataFile("numbers.txt", SHA, len(CONTENT))


def described(*files):
    return DatasetInfo(
        name="toy",
        title="",
        kind="binary",
        shape=(1,),
        splits={"train": 1},
        split_rule="",
        suggested_visible="bernoulli",
        license="",
        citation="",
        source="",
        obtain="draw some numbers.",
        folder="toy_folder",
        files=files,
    )


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("HARMONIUM_DATA", str(tmp_path / "own"))
    return tmp_path / "own" / "toy_folder"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harmonium" / "toy_folder"


def put(folder, content=CONTENT, name=FILE.name):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def test_the_users_folder_comes_before_the_cache(own, cache):
    info = described(FILE)
    assert locate.find(info, FILE) is None
    put(cache)
    assert locate.find(info, FILE) == cache / FILE.name
    put(own)
    assert locate.find(info, FILE) == own / FILE.name
    assert locate.fetch(info, FILE) == CONTENT


def test_the_cache_is_in_the_home_folder_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HARMONIUM_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate.folders(described(FILE)) == [tmp_path / ".cache" / "harmonium" / "toy_folder"]


def test_status(own, cache, tmp_path):
    assert data.status("digits") == "embedded"
    assert data.status("kos") == "missing"
    put(tmp_path / "own" / "text_kos", name="dictionary.txt")
    assert data.status("kos") == "missing"  # one of two files
    put(tmp_path / "own" / "text_kos", name="doc_word_count.tsv")
    assert data.status("kos") == str(tmp_path / "own" / "text_kos")


def test_what_is_missing_is_said_with_where_to_put_it(own, cache):
    with pytest.raises(errors.DataNotFound) as caught:
        locate.fetch(described(FILE), FILE)
    message = str(caught.value)
    assert "'toy': numbers.txt is missing" in message and "no stable public URL is known" in message
    assert f"Put numbers.txt in {own} or {cache}" in message
    assert "How to obtain: draw some numbers." in message


def test_the_variable_is_named_when_it_is_not_set(cache, monkeypatch):
    monkeypatch.delenv("HARMONIUM_DATA", raising=False)
    with pytest.raises(errors.DataNotFound, match=r"\$HARMONIUM_DATA/text_kos"):
        data.load("kos")


def test_a_wrong_checksum_names_file_expected_and_found(own, cache):
    put(own, b"other")
    with pytest.raises(errors.InvalidData) as caught:
        locate.fetch(described(FILE), FILE)
    message = str(caught.value)
    assert all(part in message for part in (str(own / FILE.name), SHA, hashlib.sha256(b"other").hexdigest()))


def test_the_checksum_of_a_gzip_file_is_of_its_content(own, cache):
    file = DataFile("numbers.gz", SHA, len(CONTENT), "decompressed")
    for level, mtime in ((1, 0), (9, 12345)):
        put(own, gzip.compress(CONTENT, level, mtime=mtime), "numbers.gz")
        assert locate.fetch(described(file), file) == CONTENT
    put(own, gzip.compress(CONTENT + b"!"), "numbers.gz")
    with pytest.raises(errors.InvalidData, match="wrong checksum"):
        locate.fetch(described(file), file)
    put(own, gzip.compress(CONTENT)[:-20], "numbers.gz")
    with pytest.raises(errors.InvalidData, match=r"numbers.gz is damaged"):
        locate.fetch(described(file), file)


class Mirror(BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"/good": CONTENT, "/bad": b"not it", "/cut": CONTENT}.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if body:
            self.wfile.write(body[:100] if self.path == "/cut" else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def mirror():
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def no_proxy(monkeypatch):
    """Reach the mirror of these tests, which is on this computer and has no certificate."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pytest.importorskip("pooch")
    monkeypatch.setattr(locate, "SECURE", "http://127.0.0.1:")


def test_only_secure_addresses(mirror, own, cache):
    file = DataFile(FILE.name, SHA, len(CONTENT), url=f"{mirror}/good")
    with pytest.raises(errors.DataNotFound, match=r"expected a URL that begins with https://"):
        locate.fetch(described(file), file)
    registered = [file.url for name in data.names() for file in data.info(name).files if file.url]
    assert registered and all(url.startswith("https://") for url in registered)


def test_download_over_http(mirror, no_proxy, own, cache):
    file = DataFile(FILE.name, SHA, len(CONTENT), url=f"{mirror}/good")
    assert locate.fetch(described(file), file) == CONTENT
    assert [path.name for path in cache.iterdir()] == [FILE.name]
    assert locate.fetch(described(file), replace(file, url=f"{mirror}/gone")) == CONTENT  # now from the cache
    assert not own.exists()


@pytest.mark.parametrize(("page", "why"), [("bad", "hash"), ("cut", ""), ("none", "404")])
def test_a_failed_download_leaves_nothing_behind(mirror, no_proxy, own, cache, page, why):
    file = DataFile(FILE.name, SHA, len(CONTENT), url=f"{mirror}/{page}")
    with pytest.raises(errors.DataNotFound, match=rf"the download of {mirror}/{page} failed: .*{why}"):
        locate.fetch(described(file), file)
    assert list(cache.iterdir()) == []


def test_a_wrong_archive_leaves_nothing_behind(mirror, no_proxy, own, cache):
    """Its checksum is that of the content, which is read after the download."""
    file = DataFile("numbers.gz", SHA, len(CONTENT), "decompressed", url=f"{mirror}/bad")
    with pytest.raises(errors.DataNotFound, match=r"numbers\.gz is damaged"):
        locate.fetch(described(file), file)
    assert list(cache.iterdir()) == []


def test_an_unreachable_host_is_data_not_found(own, cache, no_proxy):
    file = DataFile(FILE.name, SHA, len(CONTENT), url="http://127.0.0.1:9/numbers.txt")
    with pytest.raises(errors.DataNotFound, match=r"the download of .* failed"):
        locate.fetch(described(file), file)


def test_a_cache_that_cannot_be_written_is_data_not_found(mirror, no_proxy, own, cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    file = DataFile(FILE.name, SHA, len(CONTENT), url=f"{mirror}/good")
    with pytest.raises(errors.DataNotFound, match=r"the download of .* failed"):
        locate.fetch(described(file), file)
