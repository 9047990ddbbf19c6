//! The switch for planted bugs, with which tests see that the auditor finds each of them. `basalt-testkit` lists them.
//! Without the feature `mutants` no bug can be planted.

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Plants the bug of this name in the engines of this thread, or takes out the one that is planted.
    pub fn plant_mutant(name: Option<&'static str>) {
        PLANTED.set(name);
    }

    pub(crate) fn is_planted(name: &str) -> bool {
        PLANTED.get() == Some(name)
    }
}

#[cfg(feature = "mutants")]
pub(crate) use self::switch::is_planted;
#[cfg(feature = "mutants")]
pub use self::switch::plant_mutant;

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_planted(_: &str) -> bool {
    false
}

/// `mutant!(Name)` is true while the bug of this name is planted.
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_planted(stringify!($name))
    };
}
pub(crate) use mutant;
