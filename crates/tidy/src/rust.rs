// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules ask of a file of Rust: functions, documented items, public types, and the names
//! it uses of other modules. Code under `#[cfg(test)]` has functions only.

use std::sync::OnceLock;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, UseTree, Visibility};

use crate::tree::{extension, files};

/// What a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RustFacts {
    /// Relative to the root of the repository.
    pub path: String,
    /// Functions with a body, tests included.
    pub functions: Vec<Function>,
    /// Items with a doc comment.
    pub documented: Vec<Documented>,
    /// `pub` structs, enums, unions, traits and type aliases: name and line.
    pub public_types: Vec<(String, usize)>,
    /// `mod name;` of modules in files of their own.
    pub child_files: Vec<String>,
    /// Paths that code uses: of `use`, types, expressions. Those of one segment are left out.
    pub used: Vec<Vec<String>>,
    /// `use` of any visibility: the name it gives (`*` for a glob) and the path.
    pub imports: Vec<(String, Vec<String>)>,
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, without type or module.
    pub name: String,
    /// From `fn` to the closing brace; attributes and comments above it do not count.
    pub lines: usize,
}

/// An item with a doc comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documented {
    /// The name of the item, as in the code.
    pub name: String,
    /// The line of the item, from 1.
    pub line: usize,
    /// Its doc comment.
    pub doc: String,
}

/// The facts of every `.rs` file of the repository, read once for the process.
///
/// # Panics
/// On a file that is no Rust.
pub fn rust_files() -> &'static [RustFacts] {
    static FACTS: OnceLock<Vec<RustFacts>> = OnceLock::new();
    FACTS.get_or_init(|| {
        files()
            .iter()
            .filter(|file| extension(&file.path) == "rs")
            .map(|file| facts(&file.path, &file.text))
            .collect()
    })
}

/// Parses one file.
///
/// # Panics
/// If `text` is no Rust.
pub fn facts(path: &str, text: &str) -> RustFacts {
    let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut collector = Collector {
        facts: RustFacts {
            path: path.to_string(),
            ..RustFacts::default()
        },
        in_test: false,
    };
    collector.visit_file(&syntax);
    collector.facts
}

struct Collector {
    facts: RustFacts,
    in_test: bool,
}

impl Collector {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        self.facts.functions.push(Function {
            name: signature.ident.to_string(),
            lines: last - first + 1,
        });
    }

    fn document(&mut self, name: &Ident, attributes: &[Attribute]) {
        let doc = doc_text(attributes);
        if !self.in_test && !doc.is_empty() {
            self.facts.documented.push(Documented {
                name: name.to_string(),
                line: name.span().start().line,
                doc,
            });
        }
    }

    fn public_type(&mut self, name: &Ident, visibility: &Visibility) {
        if !self.in_test && matches!(visibility, Visibility::Public(_)) {
            let line = name.span().start().line;
            self.facts.public_types.push((name.to_string(), line));
        }
    }

    fn import(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(name) => self.imported(&name.ident, &name.ident, prefix),
            UseTree::Rename(name) => self.imported(&name.rename, &name.ident, prefix),
            UseTree::Glob(_) => self.facts.imports.push(("*".to_string(), prefix.clone())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix);
                }
            }
        }
    }

    /// `use prefix::original as name`; `use prefix::{self}` names the last segment of the prefix.
    fn imported(&mut self, name: &Ident, original: &Ident, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut name = name.to_string();
        if original != "self" {
            path.push(original.to_string());
        } else if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        self.facts.imports.push((name, path));
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item::{Enum, Struct, Trait, Type, Union};
        let outer = self.in_test;
        let (attributes, named) = parts(item);
        self.in_test |= is_test(attributes);
        if let Some((name, visibility)) = named {
            self.document(name, attributes);
            if matches!(item, Enum(_) | Struct(_) | Trait(_) | Type(_) | Union(_)) {
                self.public_type(name, visibility);
            }
        }
        visit::visit_item(self, item);
        self.in_test = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.document(&item.sig.ident, &item.attrs);
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.document(&item.sig.ident, &item.attrs);
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.document(name, &field.attrs);
        }
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.document(&variant.ident, &variant.attrs);
        visit::visit_variant(self, variant);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() && !self.in_test {
            self.facts.child_files.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if self.in_test {
            return;
        }
        let first = self.facts.imports.len();
        self.import(&item.tree, &mut Vec::new());
        // What a module only hands on to others it does not use itself.
        if matches!(item.vis, Visibility::Inherited) {
            let paths = self.facts.imports[first..].iter();
            self.facts.used.extend(paths.map(|(_, path)| path.clone()));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if !self.in_test && path.segments.len() > 1 {
            let segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.facts.used.push(segments);
        }
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, Meta::List(list)
                if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}

/// The attributes of an item, and the name and visibility of one that has them.
fn parts(item: &syn::Item) -> (&[Attribute], Option<(&Ident, &Visibility)>) {
    macro_rules! parts {
        ($($kind:ident)+) => {
            match item {
                $(syn::Item::$kind(item) => (&item.attrs, Some((&item.ident, &item.vis))),)+
                syn::Item::Fn(item) => (&item.attrs, Some((&item.sig.ident, &item.vis))),
                syn::Item::Impl(item) => (&item.attrs, None),
                syn::Item::Use(item) => (&item.attrs, None),
                _ => (&[], None),
            }
        };
    }
    parts!(Const Enum Mod Static Struct Trait Type Union)
}

/// The lines of the doc comments among `attributes`, joined.
fn doc_text(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) if pair.path.is_ident("doc") => Some(text.value()),
            _ => None,
        }
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
        //! A file.
        use crate::frame::{self, Frame as Page, *};
        pub use self::inner::Thing;
        mod inner;
        #[cfg(test)]
        mod tests;
        /// Seed.
        pub struct Params {
            /// Number of frames.
            frames: u64,
        }
        impl Params {
            /// Adds.
            #[inline]
            fn add(&self)
            {
                super::other::add();
            }
        }
        #[cfg(test)]
        mod more {
            use crate::unseen::X;
            pub struct Params;
            #[test]
            fn works() {}
        }
    "#;

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let facts = facts("sample.rs", SAMPLE);
        let names: Vec<_> = facts
            .functions
            .iter()
            .map(|f| (&*f.name, f.lines))
            .collect();
        assert_eq!(names, [("add", 4), ("works", 1)]);
        let docs: Vec<_> = facts
            .documented
            .iter()
            .map(|d| (&*d.name, &*d.doc))
            .collect();
        assert_eq!(
            docs,
            [
                ("Params", "Seed."),
                ("frames", "Number of frames."),
                ("add", "Adds.")
            ]
        );
        assert_eq!(facts.public_types, [("Params".to_string(), 9)]);
        assert_eq!(facts.child_files, ["inner"]);
        let imports: Vec<_> = facts
            .imports
            .iter()
            .map(|(name, path)| format!("{name}={}", path.join("::")))
            .collect();
        assert_eq!(
            imports,
            [
                "frame=crate::frame",
                "Page=crate::frame::Frame",
                "*=crate::frame",
                "Thing=self::inner::Thing"
            ]
        );
        let used: Vec<_> = facts.used.iter().map(|path| path.join("::")).collect();
        assert_eq!(
            used,
            [
                "crate::frame",
                "crate::frame::Frame",
                "crate::frame",
                "super::other::add"
            ]
        );
    }
}
