//! The place of a value inside of an object, written out only when there is something to say about it.

use std::fmt;

/// A path as a chain to the root: walking an object costs no memory.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// `path.name`, written out.
    pub(super) fn child(&self, name: &str) -> String {
        Path::Field(self, name).to_string()
    }

    /// `path[position]`, written out.
    pub(super) fn index(&self, position: usize) -> String {
        Path::Item(self, position).to_string()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => out.write_str(name),
            Self::Field(parent, name) => write!(out, "{parent}.{name}"),
            Self::Item(parent, position) => write!(out, "{parent}[{position}]"),
        }
    }
}
