"""Looks for links that lead nowhere in the documentation that rustdoc wrote: to files that are not
there (pictures as well), to parts of a page that it does not have, and, by their address at docs.rs, to pages of
these crates. rustdoc itself checks only paths of items. The arguments are the folder and the crates."""

import pathlib
import re
import sys
import urllib.parse

# From traits that show on pages of types, of `rand`, `tracing` and (by a private module) of the core; and from
# a script of rustdoc's.
FOREIGN = ("Self::random", "dispatcher#setting-the-default-subscriber", "handler/trait.IntoPayload.html#tymethod.into_payload", "static.files/${f}")

root = pathlib.Path(sys.argv[1]).resolve()
crates = sys.argv[2:]
parts = {}
broken = set()


def has(page, part):
    """Whether the page has a part of that name. Source pages make theirs as they are shown."""
    if part.isdigit() or re.fullmatch(r"\d+-\d+", part):
        return True
    if page not in parts:
        parts[page] = set(re.findall(r'\bid="([^"]*)"', page.read_text()))
    return part in parts[page] or urllib.parse.unquote(part) in parts[page]


def look(page, link):
    # "latest" is what was just built.
    own = re.match(r"https://docs\.rs/([a-z-]+)(/latest/[a-z_]+/|$)", link)
    if own and own[1].replace("-", "_") in crates:
        link = "/" + own[1].replace("-", "_") + "/" + link[own.end() :]
    document = re.match(r"https://docs\.rs/crate/tickless/latest/source/(.*)", link)
    if document:
        # A folder with a manifest is another package.
        path = pathlib.Path(document[1])
        if not path.is_file() or any((folder / "Cargo.toml").is_file() for folder in [*path.parents][:-1]):
            broken.add(f"{page.relative_to(root)}: {link}")
        return
    address, _, part = link.partition("#")
    if re.match(r"[a-z]+:", address):
        return
    address = urllib.parse.unquote(address.partition("?")[0])
    target = root / address[1:] if address.startswith("/") else page.parent / address
    target = page if not address else target.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file() or (part and target.suffix == ".html" and not has(target, part)):
        broken.add(f"{page.relative_to(root)}: {link}")


pages = [page for crate in crates for page in sorted((root / crate).rglob("*.html"))]
links = 0
for page in pages:
    for link in set(re.findall(r'(?:\bhref|<img [^>]*\bsrc)="([^"]*)"', page.read_text())):
        if not link.endswith(FOREIGN):
            links += 1
            look(page, link.replace("&amp;", "&"))
print(f"{len(pages)} pages, {links} links, {len(broken)} lead nowhere")
print(*sorted(broken), sep="\n")
sys.exit(bool(broken) or not links)
