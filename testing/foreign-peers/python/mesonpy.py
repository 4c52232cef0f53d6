"""Answers pip in place of the build tool that nanoarrow names.

pip asks a source package what it is before it keeps it. Here nothing of it is built: the answer is in the package's own
PKG-INFO.
"""

import email
import pathlib
import shutil


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    about = email.message_from_string(pathlib.Path("PKG-INFO").read_text(encoding="utf-8"))
    answer = pathlib.Path(folder, f"{about['Name']}-{about['Version']}.dist-info")
    answer.mkdir()
    shutil.copyfile("PKG-INFO", answer / "METADATA")
    return answer.name
