//! clap's errors, which take a paragraph, as the one line that every other error is.

use clap::error::ErrorKind;

/// What the standard library says of a text that is no number, and what a person would.
const REASONS: [(&str, &str); 5] = [
    ("invalid digit found in string", "a whole number from 0 on is needed"),
    ("cannot parse integer from empty string", "a number is needed"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "a number is needed"),
    ("cannot parse float from empty string", "a number is needed"),
];

/// The line, or `None` for what is no error: help and the version, and `qcs` alone, which shows the commands.
pub fn line(error: &clap::Error) -> Option<String> {
    let shown = [
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ErrorKind::DisplayVersion,
        ErrorKind::MissingSubcommand,
    ];
    if shown.contains(&error.kind()) {
        return None;
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let mut line = said.fold(String::new(), |mut line, part| {
        match (line.is_empty(), part.starts_with("tip:"), line.ends_with(':')) {
            (true, ..) => {}
            (_, _, true) => line.push(' '),
            (_, true, _) => line += "; ",
            _ => line += ", ",
        }
        line + part
    });
    for (theirs, ours) in REASONS {
        line = line.replace(theirs, ours);
    }
    let command = super::command();
    let named = std::env::args()
        .skip(1)
        .find(|word| command.find_subcommand(word).is_some());
    let whose = named.map_or(String::new(), |name| format!("{name} "));
    Some(format!("{line} (see `qcs {whose}--help`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> String {
        let error = super::super::command()
            .try_get_matches_from(words.split(' '))
            .unwrap_err();
        line(&error).expect("an error")
    }

    #[test]
    fn every_error_is_one_line_in_plain_words() {
        for (words, says) in [
            (
                "qcs run x --out r --chains -1",
                "invalid value '-1' for '--chains <N>': a whole number from 0 on",
            ),
            (
                "qcs run x --out r --xi much",
                "invalid value 'much' for '--xi <XI>': a number is needed",
            ),
            (
                "qcs run x",
                "the following required arguments were not provided: --out <DIR>",
            ),
            (
                "qcs run x --out r --chain 2",
                "'--chain' found; tip: a similar argument exists: '--chains'",
            ),
            ("qcs nonsense", "unrecognized subcommand 'nonsense'"),
        ] {
            let line = said(words);
            assert!(line.starts_with("error: ") && line.contains(says), "{line}");
            assert!(!line.contains('\n') && line.ends_with("--help`)"), "{line}");
        }
    }

    #[test]
    fn help_is_no_error() {
        let error = super::super::command().try_get_matches_from(["qcs", "run", "--help"]);
        assert_eq!(line(&error.unwrap_err()), None);
    }
}
