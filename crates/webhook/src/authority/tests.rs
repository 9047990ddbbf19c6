use super::*;

const NOW: Seconds = 1_800_000_000;
const HOUR: Seconds = 3_600;

fn terms() -> Terms {
    Terms {
        hosts: BTreeSet::from(["basalt-webhook.basalt-system.svc".to_owned(), "127.0.0.1".to_owned()]),
        certificate: 24 * HOUR,
        authority: 240 * HOUR,
    }
}

fn fresh(now: Seconds) -> Texts {
    advance(None, now)
}

/// What the contents become when everything that they need now is done.
fn advance(found: Option<&Texts>, now: Seconds) -> Texts {
    let mut texts = found.cloned();
    for _ in 0..5 {
        let need = Need::of(texts.as_ref(), now, &terms());
        if let (Need::Nothing { .. }, Some(texts)) = (&need, &texts) {
            return texts.clone();
        }
        texts = Some(need.fill(texts.as_ref(), now, &terms()).expect("it can be made"));
    }
    panic!("the contents never suffice");
}

/// `expected` begins the words for what is needed.
fn check(title: &str, found: Option<&Texts>, now: Seconds, expected: &str) {
    let need = Need::of(found, now, &terms()).to_string();
    assert!(need.starts_with(expected), "{title}: {need}");
}

const GIBBERISH: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const EVERYTHING: &str = "a new authority and certificate: ";
const CERTIFICATE: &str = "a new certificate: ";
const AUTHORITY: &str = "a new authority beside the old one: ";

#[test]
fn contents_are_judged_by_what_they_are_worth() {
    let (ours, others) = (fresh(NOW), fresh(NOW));
    let with = |change: fn(&mut Texts, &Texts)| {
        let mut texts = ours.clone();
        change(&mut texts, &others);
        texts
    };
    check("fresh", Some(&ours), NOW, "nothing until ");
    check("none", None, NOW, &format!("{EVERYTHING}there is no Secret"));
    let cases: [(&str, Texts, String); 14] = [
        (
            "empty",
            Texts::default(),
            format!("{EVERYTHING}ca.crt has no certificate"),
        ),
        (
            "no certificate yet",
            with(|t, _| (t.certificate.clear(), t.key.clear()).0),
            format!("{CERTIFICATE}tls.key is not a key"),
        ),
        (
            "a certificate without its key",
            with(|t, _| t.key.clear()),
            format!("{CERTIFICATE}tls.key is not a key"),
        ),
        (
            "the key of another",
            with(|t, o| t.key.clone_from(&o.key)),
            format!("{CERTIFICATE}tls.key is not that of tls.crt"),
        ),
        (
            "a certificate of another authority",
            with(|t, o| (t.certificate.clone_from(&o.certificate), t.key.clone_from(&o.key)).0),
            format!("{CERTIFICATE}tls.crt is signed by no authority of ca.crt"),
        ),
        (
            "half a certificate",
            with(|t, _| t.certificate.truncate(100)),
            format!("{CERTIFICATE}tls.crt is cut off"),
        ),
        (
            "no certificate but something",
            with(|t, _| t.certificate = GIBBERISH.to_owned()),
            format!("{CERTIFICATE}tls.crt cannot be read"),
        ),
        (
            "no key of the authority",
            with(|t, _| t.authority_key.clear()),
            format!("{AUTHORITY}ca.key is of no authority"),
        ),
        (
            "the key of another authority",
            with(|t, o| t.authority_key.clone_from(&o.authority_key)),
            format!("{AUTHORITY}ca.key is of no authority"),
        ),
        (
            "no authority",
            with(|t, _| t.authorities.clear()),
            format!("{EVERYTHING}ca.crt has no certificate"),
        ),
        (
            "half an authority",
            with(|t, _| t.authorities.truncate(200)),
            format!("{EVERYTHING}ca.crt is cut off"),
        ),
        (
            "an authority of somebody else's alone",
            with(|t, o| t.authorities.clone_from(&o.authorities)),
            format!("{EVERYTHING}ca.key is of no authority in ca.crt, and tls.crt is signed by no authority"),
        ),
        (
            "a serving certificate as authority",
            with(|t, _| t.authorities.clone_from(&t.certificate)),
            format!("{EVERYTHING}ca.crt has no authority that lives"),
        ),
        (
            "too many authorities",
            with(|t, _| t.authorities = t.authorities.repeat(17)),
            format!("{EVERYTHING}ca.crt has more than 16"),
        ),
    ];
    for (title, texts, expected) in &cases {
        check(title, Some(texts), NOW, expected);
        // Whatever it was, it is good afterwards.
        check(title, Some(&advance(Some(texts), NOW)), NOW, "nothing until ");
    }
}

#[test]
fn everything_is_renewed_in_time() {
    let texts = fresh(NOW);
    // A life begins a little before it is made, so it ends as much earlier.
    let certificate_ends = NOW + 24 * HOUR - CLOCKS_APART;
    let due = NOW + (24 * HOUR - CLOCKS_APART) / 3 * 2;
    let authority_due = NOW + (240 * HOUR - CLOCKS_APART) / 3 * 2;
    for (now, expected) in [
        (NOW, format!("nothing until {due}")),
        (due - 1, format!("nothing until {due}")),
        (due, format!("{CERTIFICATE}two thirds")),
        (certificate_ends, format!("{CERTIFICATE}tls.crt has ended")),
        (authority_due, format!("{AUTHORITY}two thirds")),
        (
            NOW + 241 * HOUR,
            format!("{EVERYTHING}ca.crt has no authority that lives"),
        ),
        // Another machine's clock is ahead, by a little and by too much.
        (NOW - CLOCKS_APART, format!("nothing until {due}")),
        (NOW - 3 * CLOCKS_APART, format!("{EVERYTHING}ca.crt has no authority")),
    ] {
        check(&format!("{}", now - NOW), Some(&texts), now, &expected);
    }
}

#[test]
fn a_new_authority_signs_only_when_it_is_known() {
    let mut texts = fresh(NOW);
    let authority_due = NOW + (240 * HOUR - CLOCKS_APART) / 3 * 2;
    // The certificate is due at the same moment as its authority.
    texts = advance(Some(&texts), authority_due - 16 * HOUR);
    let certificate = texts.certificate.clone();
    let renewed = advance(Some(&texts), authority_due);
    assert_eq!(renewed.certificate, certificate, "what is served with stays");
    assert_eq!(
        read(&renewed.authorities).expect("a bundle").len(),
        2,
        "both are trusted"
    );
    assert_ne!(renewed.authority_key, texts.authority_key);
    let settled = authority_due + terms().settling();
    check(
        "not yet",
        Some(&renewed),
        settled - 1,
        &format!("nothing until {settled}"),
    );
    let signed = advance(Some(&renewed), settled);
    assert_ne!(signed.certificate, certificate);
    let bundle = read(&signed.authorities).expect("a bundle");
    let leaf = first(&signed.certificate).expect("a certificate");
    assert_eq!(
        bundle.iter().map(|one| leaf.is_signed_by(one)).collect::<Vec<_>>(),
        [true, false]
    );
    // A certificate of the old authority may live for as long as certificates do.
    let gone = authority_due + terms().certificate;
    let later = advance(Some(&signed), gone - 1);
    check(
        "still trusted",
        Some(&later),
        gone - 1,
        &format!("nothing until {gone}"),
    );
    check("no longer", Some(&later), gone, "old authorities");
    let last = advance(Some(&later), gone);
    assert_eq!(read(&last.authorities).expect("a bundle").len(), 1);
}

#[test]
fn replicas_that_ask_for_different_names_do_not_take_turns() {
    let mut other = terms();
    other.hosts = BTreeSet::from(["b.example".to_owned()]);
    let ours = fresh(NOW);
    let need = Need::of(Some(&ours), NOW, &other);
    assert!(need.to_string().contains("it is not for b.example"), "{need}");
    let both = need.fill(Some(&ours), NOW, &other).expect("made");
    for terms in [&terms(), &other] {
        assert!(matches!(Need::of(Some(&both), NOW, terms), Need::Nothing { .. }));
    }
    // What nobody asks for any more goes with the next certificate.
    let later = NOW + 16 * HOUR;
    let renewed = Need::of(Some(&both), later, &other)
        .fill(Some(&both), later, &other)
        .expect("made");
    assert_eq!(first(&renewed.certificate).expect("a certificate").names, other.hosts);
}

/// Two replicas and an API server over many lives: what a replica serves with is always trusted, although both the
/// replica and the API server are behind by up to `lag`.
fn endure(certificate: Seconds, authority: Seconds, lag: Seconds) {
    let terms = Terms {
        certificate,
        authority,
        ..terms()
    };
    let mut history: Vec<Texts> = Vec::new();
    let mut texts: Option<Texts> = None;
    let (mut certificates, mut authorities) = (BTreeSet::new(), BTreeSet::new());
    for now in NOW..NOW + authority * 4 {
        loop {
            let need = Need::of(texts.as_ref(), now, &terms);
            if let Need::Nothing { until } = need {
                assert!(until > now, "{until} is not after {now}");
                break;
            }
            assert!(texts.is_none() || !matches!(need, Need::Everything { .. }), "{need}");
            texts = Some(need.fill(texts.as_ref(), now, &terms).expect("made"));
        }
        history.extend(texts.clone());
        let ago = |seconds: Seconds| &history[history.len().saturating_sub(1 + seconds as usize)];
        for (served, trusted) in [(0, 0), (lag, 0), (0, lag), (lag, lag)] {
            let leaf = first(&ago(served).certificate).expect("a certificate");
            let bundle = read(&ago(trusted).authorities).expect("a bundle");
            assert!(leaf.life.holds(now), "{} after the beginning it has ended", now - NOW);
            let known = |one: &Certificate| one.life.holds(now) && leaf.is_signed_by(one);
            assert!(
                bundle.iter().any(known),
                "{} after the beginning it is not trusted",
                now - NOW
            );
            assert!(bundle.len() <= 3);
        }
        certificates.insert(ago(0).certificate.clone());
        authorities.insert(ago(0).authority_key.clone());
    }
    assert!(
        certificates.len() >= (authority * 4 / certificate) as usize,
        "{}",
        certificates.len()
    );
    assert!(authorities.len() >= 5, "{}", authorities.len());
}

#[test]
fn what_is_served_with_is_always_trusted() {
    endure(12, 36, 1);
    endure(30, 90, 4);
    endure(20, 200, 2);
}
