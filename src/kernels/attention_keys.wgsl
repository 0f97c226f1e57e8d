// attention_keys.wgsl: the keys from key_begin to key_end, which the queries from `first` on may see.
  let back = i32(P.keys) - i32(P.queries);
  var key_end = P.keys;
  var key_begin = 0u;
{{#causal}}
  key_end = u32(clamp(i32(first + kRows) + back, 0, i32(P.keys)));
{{/causal}}
{{#window}}
  key_end = min(key_end, u32(clamp(i32(first + kRows) + back + i32(P.window), 0, i32(P.keys))));
  key_begin = u32(max(i32(first) + back - i32(P.window), 0)) / kColumns * kColumns;
{{/window}}
