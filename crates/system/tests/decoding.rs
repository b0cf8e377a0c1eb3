// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's decoder of instructions against the assembler: each line is assembled, and what
//! the decoder makes of its bytes is what was written. Needs gcc; without it nothing is tested.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
/// Numbers in the plugin's enumeration.
const NAMES: [&str; 10] = [
    "none", "cr0", "cr3", "cr4", "lidt", "invlpg", "invpcid", "virtual", "iret", "marker",
];

/// A line of assembly and the instruction, base, index, scale and displacement in it.
struct Line(String, String);

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |text: String, meaning: String| lines.push(Line(text, meaning));
    for (at, register) in REGISTERS.iter().enumerate() {
        for number in [0, 3, 4] {
            let meaning = format!("cr{number} {at} 31 0");
            add(format!("mov %{register}, %cr{number}"), meaning);
        }
        for number in [2, 8] {
            add(format!("mov %{register}, %cr{number}"), "none".into());
        }
        for displacement in [0, 8, -16, 0x1234_5678, -0x7000_0000] {
            let meaning = format!("invlpg {at} 31 {displacement}");
            add(format!("invlpg {displacement}(%{register})"), meaning);
            add(
                format!("lidt {displacement}(%{register})"),
                format!("lidt {at} 31 {displacement}"),
            );
            let (index, number) = match at {
                // The stack pointer is no index.
                4 => ("rbx", 3),
                _ => (*register, at),
            };
            add(
                format!("invlpg {displacement}(%r13, %{index}, 8)"),
                format!("invlpg 13 {number} {displacement} shift 3"),
            );
            add(
                format!("invlpg {displacement}(, %{index}, 4)"),
                format!("invlpg 31 {number} {displacement} shift 2"),
            );
        }
    }
    // At the start of a section linked nowhere an address relative to RIP is small.
    add("lidt target(%rip)".into(), "lidt 31 31 relative".into());
    for (text, meaning) in [
        ("iretq", "iret"),
        ("vmrun", "virtual"),
        ("vmlaunch", "virtual"),
        ("vmresume", "virtual"),
        ("invpcid (%rax), %rcx", "invpcid"),
        ("nopl 0x616d7001(%rax)", "marker 0x616d7001"),
        ("nopl 0x616d6f01(%rax)", "none"),
        ("nopw 0x616d7001(%rax)", "none"),
        ("nopl 0x616d7001(%rcx)", "none"),
        ("swapgs", "none"),
        ("lgdt (%rax)", "none"),
        ("sidt (%rax)", "none"),
        ("mov %cr3, %rax", "none"),
        ("rdtscp", "none"),
        ("lret", "none"),
        ("mov $0x0fcf, %eax", "none"),
        ("clflush (%rax)", "none"),
    ] {
        add(text.into(), meaning.into());
    }
    lines
}

/// A program that prints what the decoder makes of each instruction between two labels.
fn program(lines: &[Line]) -> String {
    let mut text = "#include \"decode.h\"\n#include <stdio.h>\n".to_owned();
    text += "__asm__(\".section .rodata\\ntarget:\\n";
    for (at, Line(line, _)) in lines.iter().enumerate() {
        write!(text, "L{at}: {line}\\n").unwrap();
    }
    writeln!(text, "L{}:\\n.previous\\n\");", lines.len()).unwrap();
    for at in 0..=lines.len() {
        writeln!(text, "extern const uint8_t L{at}[];").unwrap();
    }
    text += "static const uint8_t *const at[] = {";
    for at in 0..=lines.len() {
        write!(text, "L{at}, ").unwrap();
    }
    text += "};\nint main(void) {\n\
        for (size_t i = 0; i + 1 < sizeof(at) / sizeof(*at); i++) {\n\
        size_t length = (size_t)(at[i + 1] - at[i]);\n\
        uint8_t code[16] = { 0 };\n\
        memcpy(code, at[i], length);\n\
        struct operand o = special_of(code, length, (uint64_t)length);\n\
        printf(\"%u %u %u %u %d %zu\\n\", o.special, o.base, o.index, o.scale, o.displacement, \
        length);\n} }\n";
    text
}

/// The meaning of a printed line, in the words of [`lines`].
fn meaning(printed: &str, expected: &str) -> String {
    let parts: Vec<i64> = printed
        .split(' ')
        .map(|part| part.parse().unwrap())
        .collect();
    let [special, base, index, scale, displacement, _] = parts[..] else {
        panic!("{printed}");
    };
    let name = NAMES[special as usize];
    match name {
        "cr0" | "cr3" | "cr4" => format!("{name} {base} {index} {displacement}"),
        "lidt" if expected.ends_with("relative") => format!("{name} {base} {index} relative"),
        "lidt" | "invlpg" if scale > 0 => {
            format!("{name} {base} {index} {displacement} shift {scale}")
        }
        "lidt" | "invlpg" => format!("{name} {base} {index} {displacement}"),
        "marker" => format!("{name} {displacement:#x}"),
        _ => name.to_owned(),
    }
}

#[test]
fn instructions_are_what_the_assembler_wrote() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: no gcc");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("decode.c");
    let lines = lines();
    std::fs::write(&source, program(&lines)).unwrap();
    let binary = directory.path().join("decode");
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin");
    let built = Command::new("gcc")
        .args([
            "-O1",
            "-Wall",
            "-Wextra",
            "-fsanitize=address,undefined",
            "-no-pie",
            "-o",
        ])
        .args([&binary, &source])
        .arg(format!("-I{}", plugin.display()))
        .status();
    assert!(built.unwrap().success());
    let output = Command::new(&binary).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), lines.len());
    for (found, Line(text, expected)) in printed.lines().zip(&lines) {
        assert_eq!(&meaning(found, expected), expected, "{text}: {found}");
    }
}
