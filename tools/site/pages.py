# SPDX-License-Identifier: MIT
"""pages.py - hooks of mkdocs.yml: the site has the layout of the repository, and the order of README's table.

Pages are the Markdown files of the top folder and of docs/, under the same paths, so that links between them need no
change. The table of contents is the table under "Documentation" in README.md: a row is a subject, a link a page. mkdocs
reports pages that are not in it.
"""
import pathlib
import posixpath
import re
from xml.etree import ElementTree

import markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

TOP = pathlib.Path(__file__).resolve().parents[2]
DIGIT = re.compile(r"#(?=[0-9])")  # no selector of CSS begins so, and the theme's script stops at it
STYLES = {"css/code-light.css": "default", "css/code-dark.css": "github-dark"}


def slug(heading, separator):
    """The anchor of a heading on GitHub, as tests/lint/links.sh has it, but never with a digit first: see DIGIT."""
    return DIGIT.sub("#_", "#" + re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", separator))[1:]


def capital(text):
    return text[0].upper() + text[1:]


def contents():
    """README's table as the nav of mkdocs."""
    table = (TOP / "README.md").read_text().split("\n## Documentation\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w[^|]*) \| (.*) \|$", table, re.M)
    linked = lambda row: re.findall(r"\[([^]]+)\]\(([^)#]+\.md)\)", row)
    subjects = [{capital(subject): [{capital(title): path} for title, path in linked(row)]} for subject, row in rows]
    return [{"Start": "README.md"}, *subjects]


def repository():
    """The address in CITATION.cff, if it has one."""
    found = re.search(r'^repository-code: *"?([^"\s]+)', (TOP / "CITATION.cff").read_text(), re.M)
    return found[1].rstrip("/") if found else ""


class FileLinks(Treeprocessor, markdown.Extension):
    """Makes links to files that are not pages links to the repository, or plain code if its address is not known."""

    page = files = base = None

    def extendMarkdown(self, md):
        self.md = md
        md.treeprocessors.register(self, "file-links", 1)  # before mkdocs' own, which resolves links to pages

    def run(self, root):
        for link in root.iter("a"):
            target = link.get("href", "").split("#")[0]
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page.file.src_uri), target))
            if ":" not in target:
                link.set("href", DIGIT.sub("#_", link.get("href")))
            if not target or ":" in target or self.files.get_file_from_path(path) or not (TOP / path).exists():
                continue
            if self.base:
                link.set("href", f"{self.base}/blob/HEAD/{path}")
            else:
                del link.attrib["href"]
                link.tag, link.text = "code", "".join(link.itertext())
                link[:] = []


file_links = FileLinks()


def on_config(config):
    config.nav = contents()
    config.repo_url = file_links.base = repository()
    config.markdown_extensions.append(file_links)
    config.mdx_configs["toc"] = {"slugify": slug}
    return config


def on_files(files, config):
    paths = [*TOP.glob("*.md"), *(p for p in (TOP / "docs").rglob("*") if p.suffix in (".md", ".png"))]
    own = [File(str(path.relative_to(TOP)), str(TOP), config.site_dir, use_directory_urls=False) for path in sorted(paths)]
    styles = [File.generated(config, path, content=HtmlFormatter(style=name).get_style_defs(".code")) for path, name in STYLES.items()]
    theme = [file for file in files if file.src_dir != config.docs_dir]
    file_links.files = Files([*theme, *own, *styles])
    return file_links.files


def on_page_markdown(text, page, config, files):
    file_links.page = page
