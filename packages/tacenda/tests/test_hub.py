"""Model repositories of a hub, with the real client against a server on this machine."""

import base64
import hashlib
import json
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import tacenda
from support.scale import Pair, Scale, registered_models  # noqa: F401
from tacenda.artifact.packaging import ModelCard
from tacenda.errors import ArtifactError, ConfigurationError

pytest.importorskip("huggingface_hub")

from tacenda.artifact.hub import pull, push

ABOUT = ModelCard("tiny", "1.2.0", "CC-BY-SA-4.0", "Two factors.", "By *the authors*.")


class Hub:
    """What a hub answers: repositories of one branch, files in one piece."""

    def __init__(self):
        self.address = ""
        self.repositories = {}
        self.fetched = []
        self.commits = 0

    def sha(self, name):
        content = json.dumps({k: v.hex() for k, v in sorted(self.repositories[name].items())})
        return hashlib.sha1(content.encode()).hexdigest()

    def post(self, path, body):
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
            self.repositories.setdefault(name, {})
            return {"url": f"/{name}", "name": name}
        if path == "/api/validate-yaml":
            assert json.loads(body)["content"].startswith("---\n")
            return {"errors": [], "warnings": []}
        name, action = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(\w+)/\w+", path).groups()
        if action == "preupload":
            files = json.loads(body)["files"]
            regular = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            return {"files": [{"path": file["path"], **regular} for file in files]}
        assert action == "commit"
        self.commits += 1
        for line in body.splitlines():
            one = json.loads(line)
            value = one["value"]
            if one["key"] == "file":
                self.repositories[name][value["path"]] = base64.b64decode(value["content"])
            elif one["key"] == "deletedFile":
                del self.repositories[name][value["path"]]
        return {"commitUrl": f"{self.address}/{name}/commit/1", "commitOid": self.sha(name)}

    def get(self, path):
        """The answer as JSON or bytes, or None."""
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/[^/]+)?", path)
        if found:
            name, what = found.groups()
            if name not in self.repositories:
                return None
            files = self.repositories[name]
            if what == "tree":
                oid = hashlib.sha1(b"").hexdigest()
                rows = ((path, len(data)) for path, data in files.items())
                return [{"type": "file", "path": p, "size": n, "oid": oid} for p, n in rows]
            siblings = [{"rfilename": path} for path in files]
            return {"id": name, "sha": self.sha(name), "siblings": siblings, "private": False}
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        if found:
            return self.repositories.get(found[1], {}).get(unquote(found[2]))
        return None


@pytest.fixture
def hub(monkeypatch):
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(state.post(urlsplit(self.path).path, body))

        def do_HEAD(self):
            self.answer(state.get(urlsplit(self.path).path), head=True)

        def do_GET(self):
            state.fetched.append(urlsplit(self.path).path)
            self.answer(state.get(urlsplit(self.path).path))

        def answer(self, found, head=False):
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            if found is None:
                self.send_header("X-Error-Code", "RepoNotFound")
            if isinstance(found, bytes):
                name = "/".join(self.path.split("/")[1:3])
                self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
                self.send_header("X-Repo-Commit", state.sha(name))
            else:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if not head:
                self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        state.address = f"http://127.0.0.1:{server.server_port}"
        state.options = {"endpoint": state.address, "token": "secret"}
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield state
        server.shutdown()


@pytest.fixture
def saved(tmp_path):
    parts = {name: Scale(np.arange(3.0) + i) for i, name in enumerate(("first", "second"))}
    Pair(parts).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_model_that_was_pushed_is_pulled_as_it_was(hub, saved, tmp_path):
    address = push(saved, "somebody/tiny", ABOUT, **hub.options)
    assert "somebody/tiny" in address
    folder = pull("somebody/tiny", tmp_path / "here", **hub.options)
    model = tacenda.load(folder)
    np.testing.assert_array_equal(model.parts["second"].factors, np.arange(3.0) + 1)
    assert model.to_artifact().to_bytes() == tacenda.load(saved).to_artifact().to_bytes()


@pytest.mark.parametrize(
    ("license", "names"),
    [
        ("CC-BY-SA-4.0", ["cc-by-sa-4.0"]),
        ("GPL-3.0-or-later", ["gpl-3.0"]),
        ("LGPL-2.1-only", ["lgpl-2.1"]),
        ("GPL-1.0-only", ["gpl"]),
        ("ODbL-1.0", ["odbl"]),
        ("MIT OR Apache-2.0", ["other", "mit-or-apache-2.0"]),
        ("LicenseRef-Proprietary", ["other", "licenseref-proprietary"]),
        ("CC-BY-1.0", ["other", "cc-by-1.0"]),
        ("MIT-0", ["other", "mit-0"]),  # which asks for no attribution, as MIT does
    ],
)
def test_the_card_says_license_tags_and_how_to_load_it(hub, saved, license, names):
    """The hub refuses a license that is not in its list, such as gpl-3.0-or-later."""
    push(saved, "somebody/tiny", replace(ABOUT, license=license), **hub.options)
    card = hub.repositories["somebody/tiny"]["README.md"].decode()
    head, _, body = card.removeprefix("---\n").partition("---\n")
    found = dict(line.split(": ", 1) for line in head.splitlines())
    assert [json.loads(found[key]) for key in found if key.startswith("license")] == names
    assert json.loads(found["tags"]) == ["tacenda", "embedders", "test_pair_of_support"]
    assert 'pull("somebody/tiny", "tiny")' in body
    assert "By *the authors*." in body
    assert f"{license}." in body


def test_a_new_version_leaves_nothing_of_the_old(hub, saved, tmp_path):
    push(saved, "somebody/tiny", ABOUT, **hub.options)
    before = set(hub.repositories["somebody/tiny"])
    Scale(np.ones(2)).save(tmp_path / "other")
    push(tmp_path / "other", "somebody/tiny", ABOUT, **hub.options)
    after = set(hub.repositories["somebody/tiny"])
    assert before & after == {"README.md", "model.json"}
    assert len(after) == 3
    assert hub.commits == 2, "a reader could see half a model between two commits"


def test_only_the_files_of_a_model_are_fetched(hub, saved, tmp_path):
    push(saved, "somebody/tiny", ABOUT, **hub.options)
    hub.repositories["somebody/tiny"] |= {"setup.py": b"boom", "weights.bin": b"x" * 100}
    hub.fetched.clear()
    pull("somebody/tiny", tmp_path / "here", **hub.options)
    assert not any(path.endswith(("setup.py", "weights.bin")) for path in hub.fetched)
    assert not (tmp_path / "here" / "setup.py").exists()


@pytest.mark.parametrize("name", ["model.json", "tensors"])
def test_what_was_altered_on_the_hub_is_refused_and_changes_nothing(hub, tmp_path, name):
    Scale(np.ones(2)).save(tmp_path / "other")
    push(tmp_path / "other", "somebody/tiny", ABOUT, **hub.options)
    files = hub.repositories["somebody/tiny"]
    path = next(path for path in files if path.startswith(name))
    files[path] = files[path].replace(b"test_scale_of_support", b"test_bad") + b" "
    Scale(np.zeros(2)).save(tmp_path / "here")
    with pytest.raises(ArtifactError, match=r"somebody/tiny.*not a valid model"):
        pull("somebody/tiny", tmp_path / "here", **hub.options)
    np.testing.assert_array_equal(tacenda.load(tmp_path / "here").factors, np.zeros(2))


def test_a_repository_that_is_not_there_or_has_no_model_is_one_sentence(hub, tmp_path):
    hub.repositories["somebody/words"] = {"README.md": b"# Words"}
    for name, said in (
        ("somebody/else", r"cannot fetch somebody/else \(main\)"),
        ("somebody/words", r"somebody/words \(main\) is not a valid model"),
    ):
        with pytest.raises(ArtifactError, match=said):
            pull(name, tmp_path / "here", **hub.options)
        assert not (tmp_path / "here").exists()


NO_NAMES = ("tiny", "../tiny", "a/b/c", "a/..", "a b/c", "", None, "a/b\n")
NO_REVISIONS = ("", "../main", "a b", None)


@pytest.mark.parametrize(
    ("name", "revision", "said"),
    [
        *((name, "main", "OWNER/NAME") for name in NO_NAMES),
        *(("somebody/tiny", each, "not a branch, tag or commit") for each in NO_REVISIONS),
    ],
)
def test_what_is_no_repository_or_revision_is_never_asked_for(hub, tmp_path, name, revision, said):
    with pytest.raises(ConfigurationError, match=said):
        pull(name, tmp_path / "here", revision=revision, **hub.options)
    assert hub.fetched == []


def test_a_license_that_is_none_is_refused_before_anything_is_written(hub, saved):
    wrong = ModelCard("tiny", "1.2.0", "free for all", "")
    with pytest.raises(ConfigurationError, match="SPDX"):
        push(saved, "somebody/tiny", wrong, **hub.options)
    assert hub.repositories == {}
