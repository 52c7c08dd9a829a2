//! Finds circular dependencies between the files of one crate, from their paths and `use` declarations.
//!
//! A file depends on the file that defines a name it uses; re-exports are followed. Three kinds of uses
//! do not count: uses in tests, uses inside of macros, and a child module's uses of its parent, because
//! a child extends its parent. Paths outside of the crate are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::{Visit, visit_path};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree};

/// A path as a list of names. The path of a module starts at the crate's root.
type Names = Vec<String>;

/// The longest chain of re-exports that is followed.
const MOST_REEXPORTS: usize = 12;

/// Returns the circles between a crate's files. Each circle is a list of dependencies: a file, the file
/// on which it depends, and one name that it uses. `root` is the file of the crate's root module. If it
/// does not exist, the result is empty.
pub(crate) fn circles(root: &Path) -> Vec<Vec<(PathBuf, PathBuf, String)>> {
    if !root.exists() {
        return Vec::new();
    }
    let mut modules = Modules::default();
    modules.read(Names::new(), root, root.parent().unwrap(), None);
    let dependencies = modules.dependencies();
    let edges = dependencies.keys().map(|(from, to)| (from.as_path(), to.as_path()));
    let groups = tarjan_scc(&DiGraphMap::<_, ()>::from_edges(edges));
    let circles = groups.into_iter().filter(|files| files.len() > 1);
    circles
        .map(|files| {
            let inside = dependencies
                .iter()
                .filter(|((from, to), _)| files.contains(&from.as_path()) && files.contains(&to.as_path()));
            inside.map(|((from, to), name)| (from.clone(), to.clone(), name.clone())).collect()
        })
        .collect()
}

/// A module of the crate.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// The names that the module defines.
    items: BTreeSet<String>,
    /// The path of each imported item, by its name in this module.
    imports: BTreeMap<String, Names>,
    /// The modules from which this module imports all names.
    globs: Vec<Names>,
    /// The paths in the module's code and in its `use` declarations.
    paths: Vec<Names>,
}

#[derive(Default)]
struct Modules(BTreeMap<Names, Module>);

impl Modules {
    /// Reads a module and its children. `folder` contains the files of the children. `inline` is the
    /// content of a module without its own file.
    fn read(&mut self, path: Names, file: &Path, folder: &Path, inline: Option<Vec<Item>>) {
        let parse = || syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap().items;
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in inline.unwrap_or_else(parse) {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            module.items.extend(name(&item));
            match item {
                Item::Use(ItemUse { tree, .. }) => module.import(&tree, &mut Names::new()),
                Item::Mod(ItemMod { ident, content, .. }) => {
                    let name = ident.to_string();
                    let child = path.iter().cloned().chain([name.clone()]).collect();
                    let below = folder.join(&name);
                    let own = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
                    match (content, own.iter().find(|file| file.exists())) {
                        (Some((_, items)), _) => self.read(child, file, &below, Some(items)),
                        (None, Some(own)) => self.read(child, own, &below, None),
                        // A build script writes the code of this module.
                        (None, None) => continue,
                    }
                    module.children.insert(name);
                }
                code => Paths(&mut module.paths).visit_item(&code),
            }
        }
        self.0.insert(path, module);
    }

    /// Returns the dependencies between files, each with one name that causes it.
    fn dependencies(&self) -> BTreeMap<(PathBuf, PathBuf), String> {
        let mut dependencies = BTreeMap::new();
        for (path, module) in &self.0 {
            for used in module.paths.iter().chain(&module.globs) {
                if let Some(definer) = self.definer(path, used, 0)
                    && !path.starts_with(definer)
                    && self.0[definer].file != module.file
                {
                    let files = (module.file.clone(), self.0[definer].file.clone());
                    dependencies.insert(files, used.last().unwrap().clone());
                }
            }
        }
        dependencies
    }

    /// Returns the module that defines the name `used` in the module `from`; `None` if it is outside of
    /// this crate.
    fn definer(&self, from: &Names, used: &[String], depth: usize) -> Option<&Names> {
        let (first, behind) = used.split_first().filter(|_| depth < MOST_REEXPORTS)?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Names::new(), behind),
            "self" => (from.clone(), behind),
            "super" => (from.split_last()?.1.to_vec(), behind),
            _ => (from.clone(), used),
        };
        loop {
            let (key, module) = self.0.get_key_value(&at)?;
            let Some((name, behind)) = rest.split_first() else { return Some(key) };
            if name == "super" {
                at.pop()?;
            } else if module.children.contains(name) {
                at.push(name.clone());
            } else if module.items.contains(name) {
                return Some(key);
            } else {
                let imported = module.imports.get(name).filter(|path| path.as_slice() != used);
                let path = imported.map(|path| [path.as_slice(), behind].concat());
                return path.and_then(|path| self.definer(&at, &path, depth + 1)).or_else(|| {
                    let globs = module.globs.iter().filter_map(|glob| self.definer(&at, glob, depth + 1));
                    globs.filter(|glob| **glob != at).find_map(|glob| self.definer(glob, rest, depth + 1))
                });
            }
            rest = behind;
        }
    }
}

impl Module {
    /// Adds the names that a `use` declaration imports. `before` is the path in front of `tree`.
    fn import(&mut self, tree: &UseTree, before: &mut Names) {
        let (own, name) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
                return;
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => return self.globs.push(before.clone()),
            UseTree::Name(name) => (name.ident.to_string(), None),
            UseTree::Rename(rename) => (rename.ident.to_string(), Some(rename.rename.to_string())),
        };
        let itself = own == "self";
        let path: Names = before.iter().cloned().chain((!itself).then_some(own)).collect();
        self.imports.insert(name.or_else(|| path.last().cloned()).unwrap(), path.clone());
        self.paths.push(path);
    }
}

/// Collects the paths in code.
struct Paths<'a>(&'a mut Vec<Names>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit_path(self, path);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}

/// Returns the name that an item defines.
fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
