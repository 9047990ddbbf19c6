//! The help of every command, as a person reads it.

/// The commands with their words, depth first.
fn commands(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
    let mut found = vec![(words.to_owned(), command.clone())];
    for child in command.get_subcommands() {
        found.extend(commands(child, &format!("{words} {}", child.get_name())));
    }
    found
}

fn all() -> Vec<(String, clap::Command)> {
    let mut root = basalt_vcctl::command().term_width(100);
    root.build();
    let mut all = commands(&root, "vcctl");
    for tool in basalt_vcctl::tool_commands() {
        all.push((tool.get_name().to_owned(), tool.term_width(100)));
    }
    all
}

#[test]
fn every_help_is_as_reviewed() {
    let helps = all()
        .into_iter()
        .map(|(words, mut command)| format!("$ {words} --help\n{}\n", command.render_long_help()));
    let text: String = helps.collect();
    insta::assert_snapshot!(text);
}

#[test]
fn every_help_has_an_example() {
    for (words, mut command) in all() {
        let help = command.render_help().to_string();
        assert!(help.contains("Example"), "{words}");
        let program = words.split(' ').next().unwrap_or_default();
        let shown = [
            format!("  {program}"),
            format!("<({program} "),
            format!("sudo {program} "),
        ];
        assert!(shown.iter().any(|example| help.contains(example)), "{words}");
    }
}

#[test]
fn definitions_are_sound() {
    basalt_vcctl::command().debug_assert();
    for tool in basalt_vcctl::tool_commands() {
        tool.debug_assert();
    }
}
