"""Says what pyproject.toml cannot: the package contains machine code, and one wheel serves every Python from 3.10 on."""

from setuptools import Distribution, setup


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithLibrary, options={"bdist_wheel": {"py_limited_api": "cp310"}})
