//! The order of the tree's lines, whatever state the tree is in: every queue once, none hidden.

use std::collections::BTreeMap;
use std::fmt;

use basalt_api::names;
use serde_json::Value;

use super::super::{above, name};

/// One line of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Branch<'a> {
    pub(super) queue: &'a Value,
    /// Levels below the top of what is shown.
    pub(super) depth: usize,
    pub(super) children: Vec<&'a str>,
    pub(super) problem: Option<Problem>,
}

/// Why a queue does not hang where it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// Its parent does not exist.
    ParentMissing(String),
    /// It is its own ancestor; how many are in the circle, and the first of them upwards from it.
    Cycle { size: usize, first: Vec<String> },
}

impl Problem {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::ParentMissing(_) => "ParentMissing",
            Self::Cycle { .. } => "Cycle",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentMissing(parent) => write!(f, "its parent {parent} does not exist"),
            Self::Cycle { size, first } => {
                let dots = if first.len() < *size { " < …" } else { "" };
                write!(f, "in a circle of {size}: {}{dots}", first.join(" < "))
            }
        }
    }
}

/// A circle of thousands is told by its beginning.
const SHOWN: usize = 4;

/// All queues, with who is below whom.
pub(super) struct Forest<'a> {
    queues: BTreeMap<&'a str, &'a Value>,
    children: BTreeMap<&'a str, Vec<&'a str>>,
    problems: BTreeMap<&'a str, Problem>,
}

impl<'a> Forest<'a> {
    pub(super) fn of(queues: &'a [Value]) -> Self {
        let queues: BTreeMap<&str, &Value> = queues.iter().map(|queue| (name(queue), queue)).collect();
        let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut problems = BTreeMap::new();
        for (&name, &queue) in &queues {
            let Some(parent) = above(queue) else { continue };
            children.entry(parent).or_default().push(name);
            // Without a controller there is no root yet, and nothing is wrong with those below it.
            if parent != names::ROOT_QUEUE && !queues.contains_key(parent) {
                problems.insert(name, Problem::ParentMissing(parent.to_owned()));
            }
        }
        let mut forest = Self {
            queues,
            children,
            problems,
        };
        forest.find_cycles();
        forest
    }

    /// Every queue once: root and all below it, then what hangs on nothing, then what hangs on itself.
    pub(super) fn whole(&self) -> Vec<Branch<'a>> {
        let is_top = |name: &&&str| {
            let parent = self.queues.get(**name).and_then(|queue| above(queue));
            parent.is_none_or(|parent| !self.queues.contains_key(parent))
        };
        let mut walk = Walk::default();
        if self.queues.contains_key(names::ROOT_QUEUE) {
            walk.down(self, names::ROOT_QUEUE);
        }
        for top in self.queues.keys().filter(is_top) {
            walk.down(self, top);
        }
        let in_circle = |name: &&&str| matches!(self.problems.get(**name), Some(Problem::Cycle { .. }));
        for member in self.queues.keys().filter(in_circle) {
            walk.down(self, member);
        }
        walk.branches
    }

    /// A queue and all below it.
    pub(super) fn below(&self, top: &str) -> Option<Vec<Branch<'a>>> {
        let (top, _) = self.queues.get_key_value(top)?;
        let mut walk = Walk::default();
        walk.down(self, top);
        Some(walk.branches)
    }

    /// Follows every queue up once; who comes back to itself is in a circle.
    fn find_cycles(&mut self) {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let starts: Vec<&str> = self.queues.keys().copied().collect();
        for (round, start) in starts.into_iter().enumerate() {
            let mut path = Vec::new();
            let mut next = Some(start);
            while let Some(name) = next {
                match known.get(name) {
                    None => {
                        known.insert(name, round);
                        path.push(name);
                        let parent = self.queues.get(name).and_then(|queue| above(queue));
                        next = parent.filter(|parent| self.queues.contains_key(parent));
                    }
                    Some(&seen) if seen == round => {
                        let circle: Vec<&str> = path.iter().copied().skip_while(|member| *member != name).collect();
                        self.mark_cycle(&circle);
                        next = None;
                    }
                    Some(_) => next = None,
                }
            }
        }
    }

    fn mark_cycle(&mut self, circle: &[&'a str]) {
        for (at, member) in circle.iter().enumerate() {
            let (before, from_here) = circle.split_at(at);
            let first = from_here.iter().chain(before).take(SHOWN);
            let problem = Problem::Cycle {
                size: circle.len(),
                first: first.map(|name| (*name).to_owned()).collect(),
            };
            self.problems.insert(member, problem);
        }
    }
}

/// Going down without recursion, each queue once.
#[derive(Default)]
struct Walk<'a> {
    seen: std::collections::BTreeSet<&'a str>,
    branches: Vec<Branch<'a>>,
}

impl<'a> Walk<'a> {
    fn down(&mut self, forest: &Forest<'a>, top: &'a str) {
        let mut waiting = vec![(top, 0)];
        while let Some((name, depth)) = waiting.pop() {
            let Some(queue) = forest.queues.get(name) else { continue };
            if !self.seen.insert(name) {
                continue;
            }
            let children = forest.children.get(name).cloned().unwrap_or_default();
            waiting.extend(children.iter().rev().map(|child| (*child, depth + 1)));
            self.branches.push(Branch {
                queue,
                depth,
                children,
                problem: forest.problems.get(name).cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Queues from `name<parent` words; `!` marks problems in the answer, indentation is in dots.
    fn check(words: &str, top: Option<&str>, expected: &str) {
        let queues: Vec<Value> = words
            .split_whitespace()
            .map(|word| {
                let (name, parent) = word.split_once('<').unwrap_or((word, ""));
                json!({"metadata": {"name": name}, "spec": {"parent": parent}})
            })
            .collect();
        let forest = Forest::of(&queues);
        let branches = top.map_or_else(|| forest.whole(), |top| forest.below(top).unwrap());
        let shown: Vec<String> = branches
            .iter()
            .map(|branch| {
                let problem = branch.problem.as_ref().map_or("", |problem| match problem {
                    Problem::ParentMissing(_) => "!missing",
                    Problem::Cycle { .. } => "!cycle",
                });
                format!("{}{}{problem}", ".".repeat(branch.depth), name(branch.queue))
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{words}");
    }

    #[test]
    fn siblings_are_by_name_and_below_their_parent() {
        check("root b<root a<root c d<a", None, "root .a ..d .b .c");
        check("root b<root a<root c d<a", Some("a"), "a .d");
        check("", None, "");
        check("a b<a", None, "a .b");
        check("a<root root<a", None, "root .a");
    }

    #[test]
    fn damaged_trees_neither_hang_nor_hide() {
        check("root a<gone b<a", None, "root a!missing .b");
        check("root a<a", None, "root a!cycle");
        check("root a<b b<a c<a", None, "root a!cycle .b!cycle .c");
        check("root z<y y<x x<z w<y", None, "root x!cycle .y!cycle ..w ..z!cycle");
        check("root z<y y<x x<z w<y", Some("y"), "y!cycle .w .z!cycle ..x!cycle");
        check(
            "root a<b b<a c<d d<c e<gone",
            None,
            "root e!missing a!cycle .b!cycle c!cycle .d!cycle",
        );
    }

    #[test]
    fn very_long_chains_and_circles_are_walked() {
        let chain = |last: &str| -> Vec<Value> {
            let queue = |n: u32| {
                let parent = if n == 0 { last.to_owned() } else { format!("q{}", n - 1) };
                json!({"metadata": {"name": format!("q{n}")}, "spec": {"parent": parent}})
            };
            (0..20_000).map(queue).collect()
        };
        assert_eq!(Forest::of(&chain("root")).whole().last().unwrap().depth, 19_999);
        let circle = chain("q19999");
        let branches = Forest::of(&circle).whole();
        assert_eq!(branches.len(), 20_000);
        assert!(branches.iter().all(|branch| branch.problem.is_some()));
    }
}
