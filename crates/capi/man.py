#!/usr/bin/env python3
"""Makes the man pages of the C API from its headers: crates/capi/man.py VERSION OUT.

One page for each function, type and macro with arguments, of the engine (tickless.h), the wheel
(tickless_wheel.h) and what sends work to a loop (tickless_post.h); the page of a header's name has what
all of it shares, and its constants, whose names lead there. A name that has no description ends this with
an error. For reference.sh."""

import re
import sys
from pathlib import Path

HEADERS = Path(__file__).resolve().parent / "include"
NAME = r"\b(?:tickless|TICKLESS)_[A-Za-z_0-9]*[A-Za-z0-9]\b"
# What is in the headers, and is no part of the interface.
INNER = re.compile(r"_$|^TICKLESS_([A-Z]+_)?H$|^TICKLESS_MUST_USE$")
ALONE = "needs no library"


def fail(message):
    sys.exit(f"man.py: {message}")


class Item:
    """Something that a header declares: its names, its declaration, and the lines that describe it."""

    def __init__(self, name, kind, declaration, text):
        self.name, self.kind, self.declaration, self.text = name, kind, declaration, text


def comment_of(lines, at):
    """The comment that ends before line `at`: `///` in one header, /* .. */ in the other."""
    end = at
    while end > 0 and re.match(r"TICKLESS_MUST_USE$|#if", lines[end - 1]):
        end -= 1
    start = end
    while start > 0 and lines[start - 1].startswith("///"):
        start -= 1
    if start < end:
        return [line[3:].removeprefix(" ") for line in lines[start:end]]
    if end == 0 or not lines[end - 1].rstrip().endswith("*/"):
        return []
    start = end - 1
    while not lines[start].lstrip().startswith("/*"):
        start -= 1
    return plain(lines[start:end])


def plain(lines):
    """A comment without its signs."""
    text = "\n".join(lines).strip().removeprefix("/*").removesuffix("*/")
    return [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in text.split("\n")]


def items_of(header):
    """What a header declares, in its order, and the lines of its first comment."""
    source = (HEADERS / header).read_text()
    lines = source.split("\n")
    items, at = [], 0
    while at < len(lines):
        line = lines[at]
        start = at
        if match := re.match(r"#define (TICKLESS_\w+)(\()?", line):
            while line.endswith("\\"):
                at += 1
                line = lines[at]
            kind = "macro" if match[2] else "constant"
            declaration = re.sub(r"\s*\\$.*", "", lines[start].removeprefix("#define "), flags=re.S)
            # (Of one that C and C++ have each, the first.)
            if not INNER.search(match[1]) and match[1] not in [item.name for item in items]:
                items.append(Item(match[1], kind, declaration, comment_of(lines, start)))
        elif re.match(r"typedef|struct \w+ \{$", line):
            end = r"^\}.*;$" if line.endswith("{") else r";$"
            while not re.search(end, line):
                at += 1
                line = lines[at]
            declaration = "\n".join(lines[start : at + 1])
            if declaration.startswith("struct") and "fields are" in " ".join(comment_of(lines, start)):
                declaration = lines[start] + "\n    ...\n};"
            name = re.search(r"\(\*(\w+)\)|(\w+);$|^struct (\w+)", declaration)
            name = next(group for group in name.groups() if group)
            items.append(Item(name, "type", declaration, comment_of(lines, start)))
        elif re.match(r"(static inline |const |int |uint|void )[^=]*", line) and "(" in "".join(
            lines[at : at + 2]
        ):
            while not re.search(r"[;{]$", line):
                at += 1
                line = lines[at]
            declaration = " ".join(part.strip() for part in lines[start : at + 1])
            declaration = re.sub(r"^static inline | *[;{]$", "", declaration)
            name = re.search(r"(\w+)\(", declaration)[1]
            if not INNER.search(name):
                items.append(Item(name, "function", declaration, comment_of(lines, start)))
        at += 1
    about = plain(source[: source.index("*/") + 2].split("\n"))
    return items, about


def escape(text):
    """A text as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def roff(text, own=""):
    """A text, with names in bold that have a page, and arguments in italics."""
    text = re.sub(r"`([^`]+)`", r"\\fI\1\\fP", escape(text))

    def link(match):
        name = match[0].removesuffix("()")
        if name == own:
            return f"\\fB{name}\\fP"
        is_page = name in PAGES and not name.isupper()
        return f"\\fB{name}\\fP(3)" if is_page else f"\\fB{name}\\fP"

    return re.sub(NAME + r"(?:\(\))?(?!\.h)", link, text)


def body(lines, own=""):
    """Paragraphs, headings ("TIME. ..."), examples and tables, which are indented."""
    out, paragraph = [], []

    def flush():
        if paragraph:
            text = " ".join(paragraph)
            if heading := re.match(r"([A-Z]+(?: [A-Z]+)*)\. (.*)", text):
                out.append(f".SH {heading[1]}\n{roff(heading[2], own)}")
            else:
                out.append(f".PP\n{roff(text, own)}")
            paragraph.clear()

    is_example = False
    for line in [*lines, ""]:
        if line.startswith("  "):
            flush()
            if not is_example:
                out.append(".PP\n.nf")
            is_example = True
            out.append(escape(line))
            continue
        if is_example:
            out.append(".fi")
            is_example = False
        if line == "":
            flush()
        else:
            # A heading ends the paragraph before it, also without an empty line.
            if re.match(r"[A-Z]+(?: [A-Z]+)*\. [A-Z]", line):
                flush()
            paragraph.append(line)
    return "\n".join(out)


def summary(item):
    """The first clause, for the line that apropos shows."""
    text = " ".join(item.text)
    text = re.sub(r" \([^()]*\)", "", text)
    text = re.split(r"(?<=[^.])[.:;](?: |$)", text)[0].replace("`", "")
    # Names stay as they are.
    return text if re.match(r"[A-Z]{2}|\w+_", text) else text[0].lower() + text[1:]


def synopsis(item):
    """A declaration, of which the arguments are in italics."""
    if item.kind == "type":
        return escape(item.declaration.replace("///", "//"))
    declaration = item.declaration
    if item.kind == "macro":
        return f"\\fB{declaration}\\fP"
    head, arguments = declaration.split("(", 1)
    arguments = arguments.rsplit(")", 1)[0].split(", ")
    parts = [re.sub(r"(\w+)$", r"\\fP\\fI\1\\fP\\fB", argument) for argument in arguments]
    if arguments == ["void"]:
        parts = arguments
    joint = ",\n" + " " * (len(head) + 1) if len(declaration) > 75 else ", "
    return f"\\fB{head}({joint.join(parts)});\\fP"


def page(name, kind, brief, header, version, parts):
    out = [f'.TH {name} 3 "" "tickless {version}" "tickless"', ".SH NAME", f"{name} \\- {escape(brief)}"]
    for heading, text in parts:
        if text:
            out.append(f".SH {heading}\n{text}")
    related = [other for other in sorted(set(re.findall(r"\\fB(tickless\w+)\\fP\(3\)", "\n".join(out))))]
    overview = header.removesuffix(".h")
    related = [other for other in related if other not in (name, overview)]
    if name != overview:
        related.insert(0, overview)
    else:
        # It names all of them.
        related = [other for other in OVERVIEWS if other != name]
    if related:
        out.append(".SH SEE ALSO\n" + ",\n".join(f"\\fB{other}\\fP(3)" for other in related))
    return "\n".join(out) + "\n"


def write_header(header, version, out):
    items, about = ITEMS[header]
    needs_library = ALONE not in " ".join(about)
    overview = header.removesuffix(".h")
    include = f".nf\n\\fB#include <{header}>\\fP"
    link = ".PP\nLink with \\fI\\-ltickless\\fP." if needs_library else ""
    for item in items:
        if not any(item.text):
            fail(f"{item.name} has no description in {header}")
        if item.kind == "constant":
            (out / f"{item.name}.3").write_text(f".so man3/{overview}.3\n")
            continue
        text = "\n".join(item.text)
        text, _, errors = re.split(r"\n\n(Errors[:,] ?)", text) if "\n\nErrors" in text else (text, "", "")
        errors = errors.replace("\n", " ")
        returns = ""
        if needs_library and item.declaration.startswith("int ") and item.kind == "function":
            returns = "Zero or more; or a negative code, of which \\fBtickless_last_error\\fP(3) has the text."
            if not re.search(r"[Rr]eturns", text):
                returns = returns.replace("Zero or more", "Zero")
            usual = "\\fBtickless\\fP(3) has those that any call may return."
            errors = errors[:1].upper() + errors[1:]
            errors = f"{roff(errors, item.name)}\n.PP\n{usual}" if errors else usual
        (out / f"{item.name}.3").write_text(
            page(
                item.name,
                item.kind,
                summary(item),
                header,
                version,
                [
                    ("SYNOPSIS", f"{include}\n.PP\n{synopsis(item)}\n.fi{chr(10) + link if link else ''}"),
                    ("DESCRIPTION", body(text.split("\n"), item.name).removeprefix(".PP\n")),
                    ("RETURN VALUE", returns),
                    ("ERRORS", errors),
                ],
            )
        )
    brief = re.split(r"\.(?: |$)", " ".join(about).split(": ", 1)[1])[0]
    brief = re.sub(r",? as a header of.*", "", brief)
    functions = [item for item in items if item.kind in ("function", "macro")]
    types = [item for item in items if item.kind == "type"]
    constants = [item for item in items if item.kind == "constant"]

    def listed(entries):
        return "\n".join(f".TP\n\\fB{item.name}\\fP(3)\n{escape(summary(item))}" for item in entries)

    def valued(item):
        text = roff(" ".join(item.text)).removesuffix(".")
        return f".TP\n\\fB{item.name}\\fP\n{text}."

    lines = "\n".join(about).split("\n\n", 1)
    first = lines[0].split(": ", 1)[1].split("\n")
    rest = lines[1].split("\n") if len(lines) > 1 else []
    # (What the first lines say of how the header was made is not for a page.)
    first = " ".join(first).split(". ")[0].rstrip(".")
    first = [first[0].upper() + first[1:] + "."]
    (out / f"{overview}.3").write_text(
        page(
            overview,
            "header",
            brief,
            header,
            version,
            [
                ("SYNOPSIS", f"{include}\n.fi{chr(10) + link if link else ''}"),
                ("DESCRIPTION", body([*first, "", *rest]).removeprefix(".PP\n")),
                ("FUNCTIONS", listed(functions)),
                ("TYPES", listed(types)),
                ("CONSTANTS", "\n".join(valued(item) for item in constants)),
            ],
        )
    )


if len(sys.argv) != 3:
    fail("usage: man.py VERSION OUT")
ITEMS = {header: items_of(header) for header in ("tickless.h", "tickless_wheel.h", "tickless_post.h")}
OVERVIEWS = [header.removesuffix(".h") for header in ITEMS]
PAGES = {item.name for items, _ in ITEMS.values() for item in items}
OUT = Path(sys.argv[2])
OUT.mkdir(parents=True, exist_ok=True)
for each in ITEMS:
    write_header(each, sys.argv[1], OUT)
