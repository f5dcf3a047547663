"""Keys, busy servers and TLS."""

import json
import re
import ssl
import subprocess
import time

import pytest

from app.agent.runtimes import http, openai
from app.agent.runtimes.entry import parse_entries
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.served import Completions, check_whole, entry, measured, run_of

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize(
    ("more", "header", "value"),
    [
        ({"key": "sk-1"}, "Authorization", "Bearer sk-1"),
        ({"key_env": "MY_KEY"}, "Authorization", "Bearer sk-2"),
        ({"key_file": "KEY_FILE"}, "Authorization", "Bearer sk-3"),
        ({"key": "sk-1", "key_header": "X-API-Key"}, "X-API-Key", "sk-1"),
        ({"key_env": "MY_KEY", "key_header": "api-key"}, "api-key", "sk-2"),
    ],
)
def test_a_key_goes_into_its_header_and_nowhere_else(stand, monkeypatch, tmp_path, more, header, value):
    monkeypatch.setenv("MY_KEY", "sk-2\n")
    (tmp_path / "key").write_text("sk-3\n")
    more = {name: str(tmp_path / "key") if text == "KEY_FILE" else text for name, text in more.items()}
    server = stand(Completions())
    made = entry(server.url, **more)
    body = openai.measure(made, run_of())
    assert all(headers[header] == value for _, _, headers in server.asked)
    secret = value.rpartition(" ")[2]
    assert secret not in json.dumps(body) + repr(made) + json.dumps(made.message())


def test_a_name_and_password_of_an_url_are_sent_and_not_shown(stand):
    server = stand(Completions())
    made = entry(server.url.replace("//", "//me:pa%40ss@"))
    openai.measure(made, run_of())
    assert server.asked[-1][2]["Authorization"] == "Basic bWU6cGFAc3M="
    assert made.where == f"openai at {server.url}"


@pytest.mark.parametrize(
    ("status", "words"),
    [(500, "Incorrect API key provided: ***. *** is bad"), (401, "refused the API key of key_env K (401)")],
)
def test_a_key_that_a_server_repeats_is_not_shown(stand, monkeypatch, status, words):
    monkeypatch.setenv("K", "sk-secret")
    said = {"error": {"message": "Incorrect API key provided: sk-secret.\nsk-secret is bad"}}
    with pytest.raises(Failed, match=re.escape(words)) as caught:
        measured(stand(lambda path, message: (status, [said])), key_env="K")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set in the environment of the agent"),
        ({"key_file": "/no/such/file"}, "/no/such/file: No such file or directory"),
        ({"key": "sk secret\r\nX: y"}, "key is not one word of ASCII letters, digits and signs"),
        ({"key": "sk-sécret"}, "key is not one word of ASCII letters, digits and signs"),
    ],
)
def test_a_key_that_cannot_be_used_is_told_without_it(stand, more, words):
    with pytest.raises(Failed, match=words) as caught:
        measured(stand(Completions()), **more)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "record", [{"key": ["sk-secret"]}, {"key_header": "X Y: sk"}, {"url": "http://a:sk-secret@h:b"}]
)
def test_a_wrong_member_is_told_without_the_secret(record):
    plain = {"runtime": "r", "kind": "openai", "model": "m", "url": "http://h:1"}
    with pytest.raises(ValueError, match=r"f: runtime 1: (key|key_header|url): got ") as caught:
        parse_entries(json.dumps([{**plain, **record}]), "f")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["0", "", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
def test_a_busy_server_is_asked_again_when_it_wants(stand, status, after):
    plain, left = Completions(), [2, 2, 2]

    def busy(path, message):
        i = ("models" in path) + 2 * ("chat" in path)
        left[i] -= 1
        return (status, [{"error": "busy"}], {"Retry-After": after}) if left[i] > 0 else plain(path, message)

    server = stand(busy)
    check_whole(measured(server), server)


def test_a_server_that_stays_busy_says_so_in_its_words(stand):
    server = stand(lambda path, message: (503, [b"Loading model"], {"Retry-After": "9999"}))
    with pytest.raises(Failed, match=re.escape("refused the request (503): Loading model")):
        measured(server)


def test_a_busy_server_is_left_when_the_run_is_given_up(stand):
    server = stand(lambda path, message: (503, [], {"Retry-After": "50"}))
    begun_s = time.monotonic()
    with pytest.raises(http.Cancelled):
        openai.measure(entry(server.url), run_of(cancelled=lambda: bool(server.asked)))
    assert time.monotonic() - begun_s < 40


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the files of a certificate of its own and of its key, valid for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ("-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject)
    subprocess.run([*command, "-keyout", folder / "key", "-out", folder / "crt"], check=True, capture_output=True)
    return folder / "crt", folder / "key"


def test_a_private_ca_is_trusted_where_the_entry_names_it(stand, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = stand(Completions(), context)
    check_whole(measured(server, ca_file=str(certificate[0])), server)
    with pytest.raises(Failed, match=r"is not trusted \(self.signed certificate\): name its CA's as ca_file"):
        measured(server)
    with pytest.raises(Failed, match=r"cannot be read: /none: No such file"):
        measured(server, ca_file="/none")
    with pytest.raises(Failed, match=r"it is not PEM"):
        measured(server, ca_file=__file__)


def test_tls_to_a_server_without_it_says_so(stand):
    server = stand(Completions())
    with pytest.raises(Failed, match=r"does not speak TLS .*: is its url one of http://"):
        openai.measure(entry(server.url.replace("http:", "https:")), run_of())


def test_a_machine_that_nobody_knows_is_told():
    with pytest.raises(Failed, match="names no machine that this board can find"):
        openai.measure(entry("http://no-such-host.invalid:1"), run_of())
