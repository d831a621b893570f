// {{title}}
//
//   const wasm = await {{name}}.load();
//   const results = wasm.{{first}}({{{example}}});
//
// Arguments and results are flat arrays, row by row; what has several axes is one array of all elements.
// Made by Pullback. It works in a script element and from `require`, and needs no other file.
var {{name}} = (() => {
  "use strict";
  const kinds = {
    f32: Float32Array, f64: Float64Array, i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
    u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array,
  };
  const functions = {{functions}};
  const module = "{{module}}";

  function bytes(text) {
    const raw = atob(text), found = new Uint8Array(raw.length);
    for (let k = 0; k < raw.length; k++) found[k] = raw.charCodeAt(k);
    return found;
  }

  // Places in memory, from the end of the program's own on, each at a multiple of 64.
  function places(f, base) {
    let end = Math.ceil(base / 64) * 64;
    const take = size => { const at = end; end += Math.ceil(size / 64) * 64; return at; };
    const all = [...f.arguments, ...f.results].map(a => take(a.count * kinds[a.type].BYTES_PER_ELEMENT));
    return { all, arena: take(f.arena), fault: take(16), end };
  }

  function put(f, a, at, given, buffer) {
    const value = given[a.name];
    if (value === undefined) throw new TypeError(`${f.name}: ${a.name} is missing`);
    const list = typeof value === "number" || typeof value === "bigint" ? [value] : value;
    if (list.length !== a.count) {
      throw new RangeError(`${f.name}: ${a.name} has ${list.length} elements, and its shape is [${a.shape}]`);
    }
    new kinds[a.type](buffer, at, a.count).set(list);
  }

  function callable(f, exports) {
    const { all, arena, fault, end } = places(f, exports.__heap_base.value);
    const names = new Set(f.arguments.map(a => a.name));
    return given => {
      for (const name of Object.keys(given)) {
        if (!names.has(name)) throw new TypeError(`${f.name}: there is no argument ${name}`);
      }
      const missing = end - exports.memory.buffer.byteLength;
      if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536));
      f.arguments.forEach((a, k) => put(f, a, all[k], given, exports.memory.buffer));
      const status = exports[f.name](...all, arena, ...(f.failures.length ? [fault] : []));
      if (status) {
        const [found, bound] = new BigInt64Array(exports.memory.buffer, fault, 2);
        throw new RangeError(`${f.name}: ${f.failures[status - 1]}: ${found} of ${bound}`);
      }
      return Object.fromEntries(f.results.map((r, k) =>
        [r.name, new kinds[r.type](exports.memory.buffer, all[f.arguments.length + k], r.count).slice()]));
    };
  }

  async function load() {
    const { instance } = await WebAssembly.instantiate(bytes(module), {});
    instance.exports._initialize?.();
    return Object.fromEntries(functions.map(f => [f.name, callable(f, instance.exports)]));
  }

  return { load, functions };
})();
if (typeof module === "object" && module.exports) module.exports = {{name}};
