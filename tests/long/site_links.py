#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""site_links.py FOLDER - prints every link in the HTML pages of FOLDER to a file or an anchor that is not there, every
request to another site that a page would make, every anchor that the theme's script cannot use, and at the end the number
of pages and links."""
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = {"", "top"}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif attributes.get("href" if tag == "link" else "src"):
            self.loaded.append(attributes["href" if tag == "link" else "src"])


def main(folder):
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}
    count = 0
    for path, page in pages.items():
        for anchor in page.anchors:
            if anchor[:1].isdigit():
                print(f"{path.relative_to(folder)}: #{anchor}: begins with a digit, so it is not a selector of CSS")
        for link in page.links + page.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    print(f"{path.relative_to(folder)}: {link}: is loaded from another site")
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                print(f"{path.relative_to(folder)}: {link}: there is no such file")
            elif target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                print(f"{path.relative_to(folder)}: {link}: there is no such anchor")
    print(f"{len(pages)} pages, {count} links")


main(pathlib.Path(sys.argv[1]).resolve())
