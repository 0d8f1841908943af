// See direct_stores.h.
#include "jit/transform/cpu/direct_stores.h"

#include "jit/kernel/walk.h"
#include "jit/transform/kernel_edit.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

// A statement and the loop around it.
struct AccessPlace {
  Stmt* stmt = nullptr;
  Stmt* loop = nullptr;
};

bool runs_along_one_row(const Stmt* loop) {
  return loop && loop->axes.size() == 1 && !loop->axes[0].counts_tiles() && loop->axes[0].of == kNoRef;
}

class DirectStores {
 public:
  explicit DirectStores(LoweredKernel kernel) : lowered_(std::move(kernel)), kernel_(lowered_.kernel) {}

  LoweredKernel run() {
    bool any = false;
    for (Stmt& par : kernel_.body) {
      if (par.kind != K::par) continue;
      for (const Axis& a : par.axes) outer_.insert(a.var);
      collect(par);
      bool changed = false;
      for (size_t b = 0; b < kernel_.buffers.size(); ++b)
        if (kernel_.buffers[b].role == Buffer::Role::local) changed = shorten(static_cast<int>(b)) || changed;
      if (changed) remove_done(par);
      any = any || changed;
      outer_.clear();
      accesses_.clear();
      reads_.clear();
      done_.clear();
    }
    if (any) drop_unused(lowered_);
    return std::move(lowered_);
  }

 private:
  // Finds all accesses, and how often each value is read.
  void collect(Stmt& loop) {
    for (Stmt& s : loop.body) {
      if (is_access(s)) accesses_[s.buffer].push_back({&s, &loop});
      each_read(s, [&](Ref r) { ++reads_[r]; });
      collect(s);
    }
  }
  bool shorten(int local) {
    const std::vector<AccessPlace>& places = accesses_[local];
    if (places.size() != 2 || places[0].stmt->kind != K::store || places[1].stmt->kind != K::load)
      return false;
    const auto [made, maker] = places[0];
    const auto [read, reader] = places[1];
    if (!runs_along_one_row(maker) || !runs_along_one_row(reader) || reader->kind != K::loop ||
        maker->kind == K::par || maker->axes[0].extent != reader->axes[0].extent || reads_[read->result] != 1)
      return false;
    Stmt* copy = nullptr;
    for (Stmt& s : reader->body)
      if (s.kind == K::store && s.args[0] == read->result) copy = &s;
    if (!copy) return false;
    Address address = copy->address, local_address = read->address;
    const Ref from = reader->axes[0].var, to = maker->axes[0].var;
    for (Address* a : {&address, &local_address})
      for (Term& t : *a) {
        if (t.var == from)
          t.var = to;
        else if (t.var != kNoRef && !outer_.count(t.var))
          return false;
      }
    if (local_address != made->address) return false;
    made->buffer = copy->buffer;
    made->address = std::move(address);
    done_.insert(read);
    done_.insert(copy);
    return true;
  }
  void remove_done(Stmt& loop) {
    for (Stmt& s : loop.body) remove_done(s);
    std::erase_if(loop.body,
                  [&](const Stmt& s) { return done_.count(&s) || (s.kind == K::loop && s.body.empty()); });
  }

  LoweredKernel lowered_;
  Kernel& kernel_;
  std::set<Ref> outer_;
  std::map<int, std::vector<AccessPlace>> accesses_;
  std::map<Ref, int> reads_;
  std::set<const Stmt*> done_;
};

}  // namespace

LoweredKernel direct_stores(LoweredKernel kernel) { return DirectStores(std::move(kernel)).run(); }

}  // namespace tenon::jit
