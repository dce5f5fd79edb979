"""Looks for links that lead nowhere in the documentation that rustdoc wrote: to files that are not
there (pictures as well), to parts of a page that it does not have, and, by their address at docs.rs, to pages of
these crates. rustdoc itself checks only paths of items. The arguments are the folder and the crates."""

import functools
import pathlib
import re
import sys
import urllib.parse

# From traits that show on pages of types, of `rand`, `tracing` and (by a private module) of the core; and from
# a script of rustdoc's.
FOREIGN = ("Self::random", "dispatcher#setting-the-default-subscriber", "handler/trait.IntoPayload.html#tymethod.into_payload",
           "static.files/${f}")

root = pathlib.Path(sys.argv[1]).resolve()
crates = sys.argv[2:]


@functools.cache
def parts(page):
    return set(re.findall(r'\bid="([^"]*)"', page.read_text()))


def is_there(page, link):
    # "latest" is what was just built.
    own = re.match(r"https://docs\.rs/([a-z-]+)(/latest/[a-z_]+/|$)", link)
    if own and own[1].replace("-", "_") in crates:
        link = "/" + own[1].replace("-", "_") + "/" + link[own.end() :]
    if document := re.match(r"https://docs\.rs/crate/tickless/latest/source/(.*)", link):
        # A folder with a manifest is another package.
        path = pathlib.Path(document[1])
        return path.is_file() and not any((folder / "Cargo.toml").is_file() for folder in [*path.parents][:-1])
    address, _, part = link.partition("#")
    if re.match(r"[a-z]+:", address):
        return True
    address = urllib.parse.unquote(address.partition("?")[0])
    target = (root / address[1:] if address.startswith("/") else page.parent / address).resolve() if address else page
    if target.is_dir():
        target /= "index.html"
    # Source pages make their parts as they are shown.
    if not part or target.suffix != ".html" or re.fullmatch(r"\d+(-\d+)?", part):
        return target.is_file()
    return target.is_file() and not parts(target).isdisjoint({part, urllib.parse.unquote(part)})


pages = [page for crate in crates for page in (root / crate).rglob("*.html")]
LINK = re.compile(r'(?:\bhref|<img [^>]*\bsrc)="([^"]*)"')
links = [(page, link.replace("&amp;", "&")) for page in pages for link in set(LINK.findall(page.read_text()))
         if not link.endswith(FOREIGN)]
broken = sorted(f"{page.relative_to(root)}: {link}" for page, link in links if not is_there(page, link))
print(f"{len(links)} links, {len(broken)} lead nowhere", *broken, sep="\n")
sys.exit(bool(broken) or not links)
