// The number of this workgroup in the line of groups that was folded into three axes.
fn group_index(wid: vec3<u32>, nwg: vec3<u32>) -> u32 {
  return P.first_group + wid.x + nwg.x * (wid.y + nwg.y * wid.z);
}
