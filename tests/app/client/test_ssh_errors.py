"""What ssh and login shells print, in the words of systems that are not at hand: one sentence with the remedy."""

import pytest

from app.client.ssh_errors import NOT_FOUND, SSH_FAILED, ended

POWERSHELL_ENGLISH = """exec : The term 'exec' is not recognized as the name of a cmdlet, function, script file, or
operable program. Check the spelling of the name.
At line:1 char:1
+ exec python3 -I -S -c '...
+ ~~~~
    + CategoryInfo          : ObjectNotFound: (exec:String) [], CommandNotFoundException
    + FullyQualifiedErrorId : CommandNotFoundException"""


def reason(text, status=1, printed="", heard=False):
    found = ended("me@board", status, text.splitlines(), heard=heard, printed=printed.splitlines())
    return "" if found is None else found.reason


@pytest.mark.parametrize(
    "text",
    [
        "'exec' is not recognized as an internal or external command,\noperable program or batch file.",
        'Der Befehl "exec" ist entweder falsch geschrieben oder\nkonnte nicht gefunden werden.',
        "'exec' n\u2019est pas reconnu en tant que commande interne",
        '"exec" no se reconoce como un comando interno o externo,',
        "'exec' \ufffd\ufffd\ufffd\ufffd",  # Chinese in the code page 936
        '"exec" \ufffd\ufffd',
    ],
)
def test_cmd_in_any_language(text):
    assert reason(text).startswith("board is a Windows machine")
    assert reason("", printed=text).startswith("board is a Windows machine")


@pytest.mark.parametrize(
    "text",
    [
        POWERSHELL_ENGLISH,
        'exec : Die Benennung "exec" wurde nicht als Name eines Cmdlet, einer Funktion erkannt.',
        "exec: 无法将“exec”项识别为 cmdlet、函数、脚本文件或可运行程序的名称。",
        "exec : 用語 'exec' は、コマンドレット、関数、スクリプト ファイルとして認識されません。",
    ],
)
def test_powershell_in_any_language(text):
    assert reason(text).startswith("the login shell of board is PowerShell")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("This account is restricted by rssh.\nAllowed commands: scp sftp", "for file transfer only"),
        ("Sorry, sftp access only", "for file transfer only"),
        ("Hi me! You've successfully authenticated, but we do not provide shell access.", "runs no commands"),
        ("fatal: Interactive git shell is not enabled.", "runs no commands"),
        ("*** forbidden command -> exec", "is restricted"),
        ("-rbash: exec: restricted", "is restricted"),
        ("Your account has expired; please contact your system administrator.", "has expired: its administrator"),
        ("You are required to change your password immediately (administrator enforced).", "set a new one"),
        ("xcode-select: note: No developer tools were found, requesting install.", "there is no python3 on board"),
        ("Python was not found; run without arguments to install from the Store", "there is no python3 on board"),
        (
            "Dieses Konto ist derzeit nicht verf\u00fcgbar.",
            "Dieses Konto ist derzeit nicht verf\u00fcgbar.",
        ),
        (
            "No version is set for command python3\nConsider adding one\npython 3.12",
            "No version is set for command python3",
        ),
        ("Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'zlib'", "named 'zlib'"),
    ],
)
@pytest.mark.parametrize("on_stdout", [False, True])
def test_accounts_are_named_for_what_they_are_wherever_they_say_it(text, words, on_stdout):
    if on_stdout and "\n" in text and "expected" not in reason(text):
        assert words in reason("", printed=text)
    else:
        assert words in (reason("", printed=text) if on_stdout else reason(text))


def test_standard_error_tells_before_standard_output_and_noise_does_not():
    assert reason("ValueError: no", printed="Welcome to board").endswith("board: ValueError: no")
    noise = "Could not chdir to home directory /home/me: No such file or directory\n** WARNING: of old keys"
    assert reason(noise, printed="All seats are taken.").endswith("board: All seats are taken.")
    assert reason("it\nis\nlate").endswith("board: late")


def test_a_command_that_says_nothing_is_told_by_its_status():
    assert reason("", 137).endswith("board: it was ended by SIGKILL")  # as when memory is short
    assert reason("", 1).endswith("printed nothing, as the login shell /bin/false does")


def test_what_serves_sftp_alone_is_told_by_its_status():
    assert ended("board", 11, [], heard=False).reason.startswith("the account on board is for file transfer (sftp)")
    assert ended("board", 11, ["out of space"], heard=False).reason.endswith("board: out of space")


def test_a_status_of_zero_without_a_word_may_be_tried_again_and_after_an_answer_is_the_board_s_own_end():
    assert not ended("board", 0, [], heard=False).final
    assert ended("board", 0, [], heard=True) is None
    assert ended("board", 3, ["x"], heard=True) is None
    assert ended("board", None, ["exec: restricted"], heard=False) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa,ssh-dss",
            "have no host key type in common: it offers ssh-rsa,ssh-dss",
        ),
        (
            "Permissions 0644 for '/home/me/.ssh/id' are too open.\nme@board: Permission denied (publickey).",
            "type chmod 600 /home/me/.ssh/id",
        ),
        (
            "System is going down. Unprivileged users are not permitted.\nConnection closed by 10.0.0.1",
            "in now (System is",
        ),
    ],
)
def test_ssh_s_own_words(text, words):
    assert words in reason(text, SSH_FAILED)


def test_a_python_whose_libraries_are_missing_is_not_a_missing_python():
    assert "libpython3.11.so" in reason("python3: error while loading shared libraries: libpython3.11.so", NOT_FOUND)
    assert reason("sh: 1: exec: python3: not found", NOT_FOUND).startswith("there is no python3")
    assert reason("python3: Permission denied").endswith("python3: Permission denied")
