"""Writes a wheel of programs: python3 wheel.py DESCRIPTION, a file of JSON.

The same files become the same bytes: each has the time 1980-01-01, and they are in the order of
their names. The members of the object:

folder    where the wheel is written
name      of the package
version
summary   one line
readme    a file, in Markdown
licences  from names to files
lists     of what the programs are made of: from names to files
urls      of the project, by their names
platforms the platforms that the wheel is for, as tags
files     from paths inside of the wheel to files; what is in the folder of programs may be run
"""

import base64
import csv
import hashlib
import io
import json
import pathlib
import sys
import zipfile

wish = json.loads(pathlib.Path(sys.argv[1]).read_text())
name = wish["name"].replace("-", "_")
stem = f"{name}-{wish['version']}"
info = f"{stem}.dist-info"
urls = "".join(f"Project-URL: {of}, {url}\n" for of, url in wish["urls"].items())
licences = "".join(f"License-File: {of}\n" for of in wish["licences"])
platform = ".".join(sorted(wish["platforms"]))

metadata = f"""Metadata-Version: 2.4
Name: {wish["name"]}
Version: {wish["version"]}
Summary: {wish["summary"]}
Author: the arrow-device developers
License-Expression: Apache-2.0
{licences}Keywords: arrow,dlpack,gpu,conformance
Classifier: Environment :: Console
Classifier: Programming Language :: Rust
Classifier: Topic :: Software Development :: Testing
{urls}Description-Content-Type: text/markdown

{pathlib.Path(wish["readme"]).read_text()}"""
tags = "".join(f"Tag: py3-none-{tag}\n" for tag in sorted(wish["platforms"]))

files = {path: pathlib.Path(file).read_bytes() for path, file in wish["files"].items()}
files[f"{info}/METADATA"] = metadata.encode()
files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: arrow-device\nRoot-Is-Purelib: false\n{tags}".encode()
for of, file in wish["licences"].items():
    files[f"{info}/licenses/{of}"] = pathlib.Path(file).read_bytes()
for of, file in wish["lists"].items():
    files[f"{info}/sboms/{of}"] = pathlib.Path(file).read_bytes()

record = io.StringIO()
rows = csv.writer(record, lineterminator="\n")
for path in sorted(files):
    digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode()
    rows.writerow([path, f"sha256={digest}", len(files[path])])
rows.writerow([f"{info}/RECORD", "", ""])

wheel = pathlib.Path(wish["folder"]) / f"{stem}-py3-none-{platform}.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    # Readers of wheels expect the folder of metadata at the end.
    for path in [*sorted(files, key=lambda path: (path.startswith(info), path)), f"{info}/RECORD"]:
        entry = zipfile.ZipInfo(path)
        entry.compress_type = zipfile.ZIP_DEFLATED
        mode = 0o755 if "/scripts/" in path else 0o644
        entry.external_attr = (0o100000 | mode) << 16
        archive.writestr(entry, files.get(path, record.getvalue().encode()))
print(wheel)
