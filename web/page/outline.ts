// How the planes are drawn where labels are outlines: the scan, and a line inside of each label's border, as wide on the
// screen at any zoom. What the viewer hands to the drawing of planes has these names; `overlay` holds the labels' colours,
// black where a label is hidden. It finds names by reading this text, one in a line.

export const outlineShader = `#version 300 es
precision highp int;
precision highp float;
uniform highp sampler3D volume;
uniform highp sampler3D overlay;
uniform float overlays;
uniform float opacity;
uniform float overlayOutlineWidth;
uniform float overlayAlphaShader;
in vec3 texPos;
out vec4 color;

vec3 label(vec3 at) {
  vec3 size = vec3(textureSize(overlay, 0));
  vec4 found = texelFetch(overlay, ivec3(clamp(at * size, vec3(0.0), size - 1.0)), 0);
  return found.a > 0.0 ? found.rgb : vec3(0.0);
}

bool differs(vec3 own, vec3 step) {
  return label(texPos + step) != own || label(texPos - step) != own;
}

void main() {
  color = vec4(texture(volume, texPos).rgb, opacity);
  vec3 right = dFdx(texPos) * overlayOutlineWidth, up = dFdy(texPos) * overlayOutlineWidth; // so many pixels
  if (overlays < 1.0) return;
  vec3 own = label(texPos);
  if (own == vec3(0.0)) return;
  if (differs(own, right) || differs(own, up)) color.rgb = mix(color.rgb, own, overlayAlphaShader);
}`;
