// The command line `tenon`: reads the arguments and calls a verb (verbs.h). Exit status 0: done; 1: failed,
// stderr says why; 2: wrong arguments. Tested by tests/cli_test.py.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>

#include "src/base/text.h"
#include "src/cli/bench/bench.h"
#include "src/cli/verbs.h"
#include "tenon/tenon.h"

namespace {

// The message for an unknown verb: "no verb is called rum, did you mean 'run'?".
std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  const auto verbs = app.get_subcommands(nullptr);
  if (argc < 2 || argv[1][0] == '-' || verbs.empty()) return "";
  for (const CLI::Option* option : app.get_options(nullptr))
    if (option->get_positional()) return "";  // the word may be an argument
  tenon::Nearest nearest(argv[1]);
  for (const CLI::App* verb : verbs) {
    if (verb->get_name() == argv[1]) return unknown_verb(*verb, argc - 1, argv + 1);
    nearest.offer(verb->get_name());
  }
  return nearest.message("verb");
}

// Accepts a number that passes the test. The error calls other texts no such number.
template <class Test>
CLI::Validator number(const std::string& kind, Test test) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const bool reads = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
        return reads && test(value) ? std::string() : text + " is no " + kind + " number";
      },
      "NUMBER");
}
const CLI::Validator kPositive = number("positive", [](double x) { return x > 0; });
const CLI::Validator kNotNegative = number("non-negative", [](double x) { return x >= 0; });
const CLI::Validator kNotBelow0(  // accepts a number with a unit
    [](const std::string& text) { return text.starts_with('-') ? text + " is negative" : ""; }, "SIZE");
const CLI::Validator kFileName(
    [](const std::string& text) { return text.empty() ? "the name of the file is empty" : ""; }, "FILE");

// The options that `bench` and `profile` share.
void add_subject(CLI::App* verb, tenon::cli::SubjectArgs& args) {
  verb->add_option("source", args.sources, "Expressions, graphs NAME.tn, or directories of such files");
  verb->add_option("--shapes", args.shapes,
                   "Inputs of expressions: x:4096x1024,y:Nx1024:bf16,z:64xN:f32:1x64 (strides in elements)")
      ->delimiter(',');
  verb->add_option("--dim", args.dims, "N=64: a size; in bench also N=64,256,1024, each in turn");
  verb->add_option("--input", args.files, "name=file.npy; the other inputs are random");
  verb->add_option("--backend", args.backends, "Only these back ends, in order of preference")
      ->delimiter(',');
  verb->add_option("--without", args.without, "Passes that are left out")->delimiter(',');
  verb->add_option("--seconds", args.seconds, "Of calls per case, with --cold also of emptying the caches")
      ->check(kPositive);
  verb->add_option("--seed", args.seed, "Of the random inputs")->check(kNotNegative);
}

// An option with a list takes one word; the next word is a source.
void take_one_word(CLI::App* verb) {
  for (CLI::Option* option : verb->get_options({}))
    if (!option->get_positional() && option->get_items_expected_max() > 1) option->allow_extra_args(false);
}

// Adds the verb `bench`. The arguments must outlive the app.
void add_bench(CLI::App& app, tenon::cli::BenchArgs& args, tenon::cli::CompareArgs& compare,
               tenon::cli::PageArgs& page, int& result) {
  using namespace tenon::cli;
  CLI::App* verb = app.add_subcommand(
      "bench", "Time a graph, or an expression as softmax(x*scale + mask), and say what bounds it");
  add_subject(verb, args);
  verb->add_option("--threads", args.threads, "1,2: numbers of threads, each measured; otherwise all cores")
      ->delimiter(',')
      ->check(kPositive);
  verb->add_option("--vs", args.against,
                   "unfused: the same graph without fusion. python -m tenon bench also has torch, inductor, "
                   "onnxruntime, openvino and xla")
      ->check(CLI::IsMember({"unfused"}));
  verb->add_option("--rounds", args.rounds, "In which contenders take turns")->check(kPositive);
  verb->add_flag("--cold", args.cold, "Empty the caches before every call");
  verb->add_flag("--explain", args.explain, "Print the groups and their kernels");
  verb->add_flag("--print", args.print, "Print the graphs as text, and measure nothing");
  verb->add_option("--json", args.json, "Write the results to a file in Google Benchmark's format")
      ->check(kFileName);
  verb->add_option("--html", args.html, "Write the results as a page for a browser")->check(kFileName);
  take_one_word(verb);
  CLI::App* verb_page = verb->add_subcommand("page", "Write a page that shows a file of --json in a browser");
  verb_page->add_option("json", page.json)->required();
  verb_page->add_option("html", page.html)->required();
  verb_page->callback([&] { result = bench_page(page); });
  CLI::App* verb_compare =
      verb->add_subcommand("compare", "Compare two files of --json; exit status 1 if a case is slower");
  verb_compare->add_option("before", compare.before)->required();
  verb_compare->add_option("after", compare.after)->required();
  verb_compare->add_option("--tolerance", compare.tolerance, "Per cent")->check(kNotNegative);
  verb_compare->callback([&] { result = bench_compare(compare); });
  verb->callback([&, verb_compare, verb_page] {
    if (verb_compare->parsed() || verb_page->parsed()) return;
    result = args.sources.empty() ? misuse("bench needs an expression or a graph") : bench(args);
  });
}

// Adds the verb `profile`. The arguments must outlive the app.
void add_profile(CLI::App& app, tenon::cli::ProfileArgs& args, int& result) {
  CLI::App* verb = app.add_subcommand(
      "profile", "Run a graph or an expression and show the time of every step; or show a saved trace");
  add_subject(verb, args);
  verb->get_option("source")->required();
  verb->add_option("--threads", args.threads, "A number of threads; otherwise all cores")->check(kPositive);
  verb->add_option("--trace", args.trace, "Write a trace in Chrome's format, for Perfetto");
  take_one_word(verb);
  verb->callback([&] { result = profile(args); });
}

int read_and_call(int argc, char** argv) {
  using namespace tenon::cli;
  CLI::App app("Tenon: a JIT graph executor", "tenon");
  app.set_version_flag("--version", std::string("tenon ") + tenon_version_string());
  app.require_subcommand(1);
  int result = kDone;

  OptArgs opt_args;
  CLI::App* opt_verb = app.add_subcommand("opt", "Run passes on a graph: text in, text out");
  constexpr const char* kFile = "Graph as text, - reads stdin; or MXNet's symbol, NAME.json";
  opt_verb->add_option("file", opt_args.file, kFile)->required();
  opt_verb->add_option("--input", opt_args.inputs, "Of a symbol: name=1,3,224,224; sizes may be symbols");
  opt_verb->add_option("--params", opt_args.params, "Of a symbol: the shapes of its parameters");
  opt_verb->add_option("--pass", opt_args.passes, "Passes, in this order; without it, only checks and prints")
      ->delimiter(',');
  opt_verb
      ->add_option("--kernel-pass", opt_args.kernel_passes,
                   "The text is a kernel: passes of the kernel compiler to run on it")
      ->delimiter(',')
      ->excludes("--pass");
  opt_verb->add_option("--without", opt_args.without, "Passes that the pass optimize leaves out")
      ->delimiter(',');
  opt_verb->callback([&] { result = opt(opt_args); });

  RunArgs run_args;
  CLI::App* run_verb =
      app.add_subcommand("run", "Compile a graph and run it on .npy files or random numbers");
  CLI::App* verify_verb = app.add_subcommand("verify",
                                             "Run a graph and compare with the evaluator; if they differ, "
                                             "find the smallest part and the pass at fault");
  for (CLI::App* verb : {run_verb, verify_verb}) {
    verb->add_option("file", run_args.file, kFile)->required();
    verb->add_option("--input", run_args.inputs,
                     "name=file.npy; the other inputs are random. Of a symbol also name=1,3,224,224");
    verb->add_option("--params", run_args.params, "Of a symbol: its .params file");
    verb->add_option("--dim", run_args.dims, "N=4: a size of random inputs");
    verb->add_option("--seed", run_args.seed, "Of the random inputs")->check(kNotNegative);
    verb->add_option("--backend", run_args.backends, "Only these back ends, in order of preference")
        ->delimiter(',');
    verb->add_option("--without", run_args.without, "Passes that are left out")->delimiter(',');
  }
  verify_verb->callback([&] { result = verify(run_args); });
  run_verb->add_option("--repeat", run_args.repeat, "Runs; the last one is timed")->check(kPositive);
  run_verb->add_option("--output-dir", run_args.output_dir, "Writes every output as NAME.npy")
      ->check(CLI::ExistingDirectory);
  run_verb
      ->add_option("--budget", run_args.budget,
                   "The most bytes of intermediates; steps run again to save memory")
      ->check(kNotNegative);
  run_verb->add_flag("--explain", run_args.explain, "Print the groups and their kernels");
  run_verb->callback([&] { result = run(run_args); });

  BenchArgs bench_args;
  CompareArgs compare_args;
  PageArgs page_args;
  add_bench(app, bench_args, compare_args, page_args, result);
  ProfileArgs profile_args;
  add_profile(app, profile_args, result);

  CacheArgs cache_args;
  CLI::App* cache_verb = app.add_subcommand("cache", "The compiled kernels and optimised graphs on disk");
  cache_verb->require_subcommand(1);
  auto cache_part = [&](const std::string& name, const std::string& meaning) {
    CLI::App* part = cache_verb->add_subcommand(name, meaning);
    part->callback([&, name] {
      cache_args.verb = name;
      result = cache(cache_args);
    });
    return part;
  };
  cache_part("ls", "The entries, one per line, the longest unused first");
  cache_part("stat", "The directory, the number of entries and their size");
  cache_part("prune",
             "Remove the longest unused entries above the limit, and files that dead processes left behind")
      ->add_option("--bytes", cache_args.bytes, "Down to this size instead; 0 removes all")
      ->check(kNotBelow0)
      ->transform(CLI::AsSizeValue(false));
  cache_part("verify", "Read every kernel and check it; exit status 1 if one is damaged")
      ->add_flag("--remove", cache_args.remove, "Remove the damaged entries");
  cache_part("export", "Write all kernels into one file")->add_option("file", cache_args.file)->required();
  cache_part("import", "Store the kernels of such a file that this machine can run")
      ->add_option("file", cache_args.file)
      ->required();

  app.add_subcommand("doctor", "What Tenon finds on this machine, and whether it computes")->callback([&] {
    result = doctor();
  });
  app.add_subcommand("env", "The TENON_* variables")->callback([&] { result = env(); });

  std::string op_name;
  CLI::App* ops_verb = app.add_subcommand("ops", "The ops, or one of them");
  ops_verb->add_option("name", op_name, "Of one op");
  ops_verb->callback([&] { result = ops(op_name); });

  if (const std::string wrong = unknown_verb(app, argc, argv); !wrong.empty()) return misuse(wrong);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return fail(tenon::system_error("stdout"));
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    // `tenon help VERB` is `tenon VERB --help`.
    if (argc < 2 || std::string_view(argv[1]) != "help") return read_and_call(argc, argv);
    std::string help = "--help";
    std::rotate(argv + 1, argv + 2, argv + argc);
    argv[argc - 1] = help.data();
    return read_and_call(argc, argv);
  } catch (const tenon::StatusError& e) {
    return tenon::cli::fail(e.status);
  } catch (const std::bad_alloc&) {
    return tenon::cli::fail(tenon::environment("out of memory"));
  } catch (const std::exception& e) {
    return tenon::cli::fail(tenon::Status(tenon::Code::internal, e.what()));
  }
}
